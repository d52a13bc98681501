"""`roost serve` with TLS on both listeners, and certificates demanded of agents: real processes, real handshakes."""

import asyncio
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import aiohttp
import pytest
from tests import launching
from tests.authority import Authority
from tests.cluster import Cluster, boot, cluster, network_ids, settle, until

from roost.cli.asking.cloud_client import CloudClient
from roost.cli.keystone import Access
from roost.platform.tls import client_context

CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks: [{name: net, subnets: [{cidr: 10.1.0.0/28}]}]
hosts: [{name: h1, vcpus: 8, ram_mb: 8192, disk_gb: 100}]
"""


class TlsCloud(NamedTuple):
    """A Roost on https. known: a client's options with a certificate of the agents' authority; stranger: of another."""

    cluster: Cluster
    ca: str
    known: tuple[str, ...]
    stranger: tuple[str, ...]


@pytest.fixture(scope="module")
def cloud() -> Iterator[TlsCloud]:
    with cluster() as made:
        ours, theirs = Authority(made.directory), Authority(made.directory, "other")
        cert, key = ours.sign("roost")
        made.serve(**{"tls-cert": cert, "tls-key": key, "agent-ca": ours.cert})
        known, stranger = (
            ("--ca-file", ours.cert, "--cert", pair[0], "--key", pair[1])
            for pair in (ours.sign("agent"), theirs.sign("stranger"))
        )
        (made.directory / "cloud.yaml").write_text(CLOUD)
        made.run("load", str(made.directory / "cloud.yaml"), "--api", made.url, *known)
        yield TlsCloud(made, ours.cert, known, stranger)


def context(options: tuple[str, ...]) -> ssl.SSLContext:
    made = client_context(options[1], options[3], options[5])
    assert made is not None
    return made


def access(options: tuple[str, ...]) -> Access:
    return Access(ca_file=options[1], cert=options[3], key=options[5])


async def agents_url(cloud: TlsCloud) -> str:
    async with CloudClient.connect(cloud.cluster.url, access(cloud.stranger)) as client:
        return await client.agent_url()


async def test_every_url_that_is_said_is_https(cloud: TlsCloud) -> None:
    assert cloud.cluster.url.startswith("https://127.0.0.1:")
    assert (await agents_url(cloud)).startswith("https://127.0.0.1:")


async def test_a_server_boots_through_an_agent_that_shows_its_certificate(cloud: TlsCloud) -> None:
    cloud.cluster.agent("--fleet=all", *cloud.known, wait=False)
    async with CloudClient.connect(cloud.cluster.url, access(cloud.known)) as client:

        async def all_up() -> bool:
            services = (await client.call("GET", "/compute/v2.1/os-services"))["services"]
            return {service["state"] for service in services} == {"up"}

        await until(all_up)
        await boot(client, (await network_ids(client))["net"])
        await settle(cloud.cluster)
        assert [server["status"] for server in await client.list_servers()] == ["ACTIVE"], cloud.cluster.logs()


async def test_neither_listener_speaks_plain_http_or_an_older_tls(cloud: TlsCloud) -> None:
    older = context(cloud.known)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    async with aiohttp.ClientSession() as session:
        for url in (f"{cloud.cluster.url}/healthz", (await agents_url(cloud)).replace("/agent/v1", "/healthz")):
            async with session.get(url, ssl=context(cloud.known)) as response:
                assert response.status == 200
            for wrong, tls in ((url.replace("https", "http"), True), (url, older)):
                with pytest.raises(aiohttp.ClientError):
                    await session.get(wrong, ssl=tls)


async def test_only_the_agents_listener_demands_a_certificate_of_the_agents_authority(cloud: TlsCloud) -> None:
    agents = await agents_url(cloud)
    strangers = (context(cloud.stranger), client_context(cloud.ca, None, None))
    async with aiohttp.ClientSession() as session:
        for tls in strangers:
            assert tls is not None
            async with session.get(f"{cloud.cluster.url}/healthz", ssl=tls) as response:
                assert response.status == 200
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await session.get(f"{agents}/hosts", ssl=tls)


async def test_an_agent_without_the_certificate_says_so_and_serves_nothing(cloud: TlsCloud) -> None:
    agent = cloud.cluster.spawn(
        "agent", "--api", cloud.cluster.url, "--host", "h2", "--ca-file", cloud.ca,
        "--state", str(cloud.cluster.directory / "shut-out"),
    )  # fmt: skip

    async def said() -> bool:
        return "the API does not answer" in cloud.cluster.logs()

    await until(said)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{await agents_url(cloud)}/hosts", ssl=context(cloud.known)) as response:
            assert await response.json() == {"hosts": ["h1"]}
    await asyncio.to_thread(cloud.cluster.stop, agent)


async def test_an_agent_that_does_not_trust_the_api_is_told_of_ca_file(cloud: TlsCloud) -> None:
    agent = cloud.cluster.spawn(
        "agent", "--api", cloud.cluster.url, "--host", "h3", "--state", str(cloud.cluster.directory / "no-trust")
    )

    async def said() -> bool:
        return "--ca-file names whom to trust" in cloud.cluster.logs()

    await until(said)
    await asyncio.to_thread(cloud.cluster.stop, agent)


@pytest.mark.parametrize("command", ["status", "servers"])
def test_a_certificate_is_shown_by_every_command_that_asks(cloud: TlsCloud, command: str) -> None:
    assert cloud.cluster.run(command, "--api", cloud.cluster.url, *cloud.known)
    half = launching.run(command, "--api", cloud.cluster.url, *cloud.known[:4])
    assert (half.returncode, "--cert and --key: expected both" in half.stderr) == (2, True)


def test_load_says_why_it_does_not_trust_the_api(cloud: TlsCloud) -> None:
    done = launching.run("load", str(cloud.cluster.directory / "cloud.yaml"), "--api", cloud.cluster.url)
    assert done.returncode == 1
    assert "certificate" in done.stderr
    assert "--ca-file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--tls-cert", "ca.pem"), 2, "--tls-cert and --tls-key: expected both"),
        (("--agent-ca", "ca.pem"), 2, "expected --tls-cert and --tls-key as well"),
        (("--tls-cert", "ca.pem", "--tls-key", "other.key"), 1, "it is not the key of --tls-cert"),
        (("--tls-cert", "nosuch", "--tls-key", "ca.key"), 1, "nosuch: No such file or directory"),
    ],
)
def test_a_mistake_ends_it_with_one_sentence(cloud: TlsCloud, options: tuple[str, ...], status: int, said: str) -> None:
    done = launching.run("serve", "--listen", "127.0.0.1:0", *options, directory=cloud.cluster.directory)
    assert done.returncode == status
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
