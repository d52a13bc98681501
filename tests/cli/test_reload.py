"""SIGHUP has a Roost that runs take up certificates, policy and the log's level: nobody ends, nothing is cut."""

import asyncio
import fcntl
import json
import os
import pty
import signal
import ssl
import subprocess
import sys
import termios
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.authority import Authority
from tests.cluster import REQUEST_LINE, Cluster, cluster, until
from tests.faults.test_connections import processes

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
CONFIG = '[log]\nlevel = "{level}"\n[placement]\npolicy_file = "{folder}/policy.yaml"\n'
AT_ONCE = 30
"""Connections in a row: some of them go to each worker, old or new."""


@pytest.fixture
def roost() -> Iterator[Cluster]:
    with cluster() as made:
        cert, key = Authority(made.directory).sign("roost")
        write(made.directory, level="error", policy={})
        config = str(made.directory / "roost.toml")
        made.serve("placement", auth="noauth2", workers=2, config=config, **{"tls-cert": cert, "tls-key": key})
        yield made


def write(folder: Path, *, level: str, policy: dict[str, str]) -> None:
    (folder / "roost.toml").write_text(CONFIG.format(level=level, folder=folder))
    (folder / "policy.yaml").write_text(json.dumps(policy))


def hang_up(roost: Cluster) -> None:
    roost.processes[0].send_signal(signal.SIGHUP)


def host_and_port(roost: Cluster) -> tuple[str, int]:
    parts = urlsplit(roost.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def certificates(roost: Cluster) -> set[str]:
    return {ssl.get_server_certificate(host_and_port(roost)) for _ in range(AT_ONCE)}


def replace_certificate(folder: Path) -> str:
    """The new one, as `certificates` has it."""
    cert, _ = Authority(folder, "another").sign("roost")
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(Path(cert).read_text()))


async def begin_request(roost: Cluster) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """A request that lacks the end of its body, and that end."""
    body = json.dumps({"name": "in-flight", "uuid": str(uuid.uuid4())}).encode()
    context = ssl.create_default_context(cafile=str(roost.directory / "ca.pem"))
    reader, writer = await asyncio.open_connection(*host_and_port(roost), ssl=context)
    head = "\r\n".join((
        "POST /resource_providers HTTP/1.1", "Host: roost", "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in HEADERS.items()), f"Content-Length: {len(body)}", "", "",
    ))  # fmt: skip
    writer.write(head.encode() + body[:10])
    await writer.drain()
    return reader, writer, body[10:]


async def test_what_changed_takes_effect_and_what_is_in_flight_survives(roost: Cluster) -> None:
    pids = processes(roost, "api")
    (old,) = certificates(roost)
    async with httpx.AsyncClient(base_url=roost.url, headers=HEADERS, verify=False) as client:
        assert (await client.get("/resource_providers")).status_code == 200
        reader, writer, rest = await begin_request(roost)
        new = replace_certificate(roost.directory)
        write(roost.directory, level="info", policy={"placement:resource_providers:list": "!"})
        hang_up(roost)
        assert new != old

        async def is_renewed() -> bool:
            with suppress(ssl.SSLEOFError):  # the listener with the old one ended while it greeted
                return await asyncio.to_thread(certificates, roost) == {new}
            return False

        await until(is_renewed)
        assert {(await client.get("/resource_providers")).status_code for _ in range(4)} == {403}
        writer.write(rest)
        assert b" 200 " in await reader.readline()
        writer.close()
    assert roost.said(REQUEST_LINE)
    assert processes(roost, "api") == pids


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("roost.toml", '[log]\nlevel = "loud"', "level"),
        ("policy.yaml", "{", "is not YAML"),
        ("roost.pem", "nothing", "expected a certificate in PEM"),
    ],
)
async def test_what_cannot_be_used_is_named_and_changes_nothing(
    roost: Cluster, file: str, text: str, sentence: str
) -> None:
    pids = processes(roost, "api")
    before = certificates(roost)
    (roost.directory / file).write_text(text)
    hang_up(roost)

    async def is_said() -> bool:
        return "nothing is read again" in roost.logs() and sentence in roost.logs()

    await until(is_said)
    assert (processes(roost, "api"), certificates(roost)) == (pids, before)
    async with httpx.AsyncClient(base_url=roost.url, headers=HEADERS, verify=False) as client:
        assert (await client.get("/resource_providers")).status_code == 200


def test_closing_the_terminal_ends_it(data_dir: Path) -> None:
    ours, theirs = pty.openpty()
    code = "from roost.cli.entry import run_roost; run_roost()"
    words = ("serve", "placement", "--json", "--listen=127.0.0.1:0", f"--data-dir={data_dir / 'data'}")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # the session's own: the kernel tells of its end
    )  # fmt: skip
    try:
        os.close(theirs)
        assert process.stdout is not None
        assert b"url" in process.stdout.readline()
        os.close(ours)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
