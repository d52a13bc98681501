"""What Roost reads of a Neutron over real HTTP: pages, changes, tokens, outages, garbage."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.cluster import Cluster
from tests.fake_neutron import FakeNeutron
from tests.placement.providers import a_uuid
from tests.platform.fake_keystone import FakeKeystone, Today

from roost.clients.neutron import HttpNeutron
from roost.placement.service.neutron_view import DOUBTS_MAX
from roost.platform.errors import BadRequest
from roost.platform.keystone import Keystone
from roost.platform.settings import KeystoneSettings, NeutronSettings
from roost.seams.neutron import NeutronPartial, NeutronUnavailable

SEGMENTS = tuple(a_uuid() for _ in range(3))


@pytest.fixture
async def neutron() -> AsyncIterator[FakeNeutron]:
    fake = FakeNeutron()
    fake.add_network(dict.fromkeys(SEGMENTS, 20), enable_dhcp=True)
    fake.add_network({a_uuid(): 9})
    for number in range(11):
        fake.add_port(SEGMENTS[number % 3], a_uuid() if number % 2 else "")
    async with fake.serve():
        yield fake


async def read(client: HttpNeutron) -> tuple[object, ...]:
    page = await client.list_ports()
    assert page is not None
    key = lambda item: item.id  # noqa: E731
    return (
        sorted(await client.list_networks(), key=key), sorted(await client.list_segments(), key=key),
        sorted(await client.list_subnets(), key=key),
        (sorted(page.ports, key=key), page.changed_at),
        await client.count_addresses([one.id for one in await client.list_networks()] + [a_uuid()]),
    )  # fmt: skip


async def truth(fake: FakeNeutron) -> tuple[object, ...]:
    return await read(fake)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("page", "pages", "most"),
    [(1000, True, 1000), (3, True, 1000), (11, True, 1000), (1, True, 1000), (3, False, 1000), (1000, True, 4)],
)
async def test_lists_are_read_whole_in_pages_of_any_size(
    neutron: FakeNeutron, page: int, pages: bool, most: int
) -> None:
    neutron.pages, neutron.pages_max = pages, most
    client = HttpNeutron(NeutronSettings(url=f"{neutron.url}/v2.0", page=page), None)
    assert await read(client) == await truth(neutron)
    lists = [query for name, query in neutron.asked if name != "network-ip-availabilities"]
    assert all(query["limit"] == str(page) for query in lists)
    await client.close()


async def test_who_may_not_ask_for_the_count_gets_none(neutron: FakeNeutron) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    networks = [*neutron.networks, a_uuid()]
    assert await client.count_addresses(networks) == await neutron.count_addresses(networks) != {}
    neutron.policies["get_network_ip_availability"] = frozenset()
    assert await client.count_addresses(networks) == {}
    asked = len(neutron.asked)
    assert await client.count_addresses([a_uuid() for _ in range(100)]) == {}
    assert len(neutron.asked) - asked == 3, "40 at once, as their ids are in the request's line"
    neutron.is_down = True
    with pytest.raises(NeutronUnavailable, match="cannot be asked for network-ip-availabilities: it answers 503"):
        await client.count_addresses(networks)
    await client.close()


async def test_a_subnet_without_its_segment_is_not_one_on_no_segment(neutron: FakeNeutron) -> None:
    """Source: Neutron leaves the member out for who may not see it; null says that there is none."""
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    subnets = [*neutron.subnets]
    neutron.subnets[subnets[0]]["segment_id"] = None
    assert {one.id: one.segment_id for one in await client.list_subnets()}[subnets[0]] == ""
    neutron.roles = frozenset({"service"})
    says = "does not say to nobody, without a token on which segments .* the rights get_segment and get_subnet:segment"
    with pytest.raises(NeutronPartial, match=says):
        await client.list_subnets()
    await client.close()


@pytest.mark.parametrize(("count", "queries"), [(0, 1), (1, 1), (39, 1), (40, 1), (41, 2), (80, 2), (81, 3)])
async def test_no_query_names_more_than_40_ids(neutron: FakeNeutron, count: int, queries: int) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    before = len(neutron.ports)
    ports = [neutron.add_port(None) for _ in range(count)]
    page = await client.list_ports(ids=ports)
    assert page is not None
    assert sorted(port.id for port in page.ports) == sorted(ports or neutron.ports)
    assert (len(neutron.asked), len(neutron.ports)) == (queries, before + count)
    await client.close()


async def test_ports_are_asked_for_by_their_ids(neutron: FakeNeutron) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    port, gone = neutron.add_port(SEGMENTS[0]), str(uuid.uuid4())
    page = await client.list_ports(ids=[port, gone, *(str(uuid.uuid4()) for _ in range(DOUBTS_MAX - 2))])
    assert page is not None
    assert [one.id for one in page.ports] == [port]
    await client.close()


async def test_the_ports_of_one_server_are_asked_for(neutron: FakeNeutron) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    server = a_uuid()
    ports = [neutron.add_port(SEGMENTS[number], server) for number in range(2)]
    page = await client.list_ports(device_id=server)
    assert page is not None
    assert {(one.id, one.network_id) for one in page.ports} == {(port, neutron.segments[SEGMENTS[0]]) for port in ports}
    assert [query["device_id"] for _, query in neutron.asked] == [server]
    await client.close()


async def test_changes_are_asked_for_by_neutrons_clock(neutron: FakeNeutron) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url), None)
    whole = await client.list_ports()
    assert whole is not None
    port = neutron.add_port(SEGMENTS[0])
    changed = await client.list_ports(changed_since=whole.changed_at)
    assert changed is not None
    assert {one.id for one in changed.ports} > {port}, "and those of the same second"
    neutron.tells_changes = False
    assert await client.list_ports(changed_since=whole.changed_at) is None
    asked = len(neutron.asked)
    assert await client.list_ports(changed_since=whole.changed_at) is None
    assert len(neutron.asked) == asked, "it is not asked again"
    await client.close()


async def test_a_list_whose_marker_is_deleted_is_begun_anew(neutron: FakeNeutron) -> None:
    client = HttpNeutron(NeutronSettings(url=neutron.url, page=4), None)
    first = sorted(neutron.ports)[3]
    read_list = client._get

    async def delete_meanwhile(name: str, kind: type, query: object) -> list:
        page = await read_list(name, kind, query)  # type: ignore[arg-type, type-var]
        neutron.ports.pop(first, None)
        return page

    client._get = delete_meanwhile  # type: ignore[method-assign, assignment]
    page = await client.list_ports()
    assert page is not None
    assert {port.id for port in page.ports} == set(neutron.ports)
    await client.close()


async def test_the_configured_token_is_sent(neutron: FakeNeutron) -> None:
    neutron.token = "secret"
    for token, hint in (("secret", None), ("other", r"it answers 401 to the token of \[neutron\]")):
        client = HttpNeutron(NeutronSettings(url=neutron.url, token=token), None)
        if hint is None:
            assert len(await client.list_segments()) == 4
        else:
            with pytest.raises(NeutronUnavailable, match=hint):
                await client.list_segments()
        await client.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (web.Response(status=503), "it answers 503"),
        (web.Response(text="<html>"), "its answer is none"),
        (web.json_response({"networks": []}), "its answer is none"),
        (web.json_response({"segments": [{"id": 5}]}), "its answer is none"),
        (web.Response(status=302, headers={"Location": "/x"}), "it answers 302"),
    ],
)
async def test_what_is_no_list_is_named(answer: web.Response, says: str) -> None:
    async def reply(_request: web.Request) -> web.Response:
        return answer

    app = web.Application()
    app.router.add_get("/v2.0/segments", reply)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    client = HttpNeutron(NeutronSettings(url=url), None)
    with pytest.raises(NeutronUnavailable, match=f"Neutron at {url}/v2.0 cannot be asked for segments: {says}"):
        await client.list_segments()
    await client.close()
    await runner.cleanup()
    client = HttpNeutron(NeutronSettings(url=url), None)
    with pytest.raises(NeutronUnavailable, match="cannot be asked"):
        await client.list_segments()
    await client.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "url is needed, in the file of --config or as ROOST_NEUTRON_URL: expected an address"),
        ({"url": "neutron:9696"}, "url 'neutron:9696': expected an address: http://neutron.example:9696"),
        ({"url": "http://n", "cafile": "/no/such"}, r"\[neutron\] cafile /no/such: No such file"),
        ({"url": "http://n", "cafile": __file__}, "expected certificates in PEM"),
    ],
)
def test_settings_that_cannot_work_name_the_option(settings: dict[str, str], says: str) -> None:
    with pytest.raises(BadRequest, match=says.replace("(", r"\(")):
        NeutronSettings(**settings).check()


async def test_without_an_address_the_catalogue_of_keystone_says_it(neutron: FakeNeutron) -> None:
    fake = FakeKeystone(world=Today())
    await fake.start()
    own = KeystoneSettings(auth_url=fake.url, username="roost", password=fake.password)
    client = HttpNeutron(NeutronSettings(region="one"), Keystone(own))
    with pytest.raises(NeutronUnavailable, match="catalogue has no endpoint internal in one of the type network"):
        await client.list_segments()
    elsewhere = HttpNeutron(NeutronSettings(url=neutron.url, region="two"), Keystone(own))
    assert {segment.id for segment in await elsewhere.list_segments()} >= {*SEGMENTS}, "an address wins"
    await elsewhere.close()
    await client.close()
    endpoints = [
        {"interface": interface, "region_id": region, "region": region, "url": url, "id": f"{interface}{region}"}
        for interface, region, url in (
            ("public", "one", "http://127.0.0.1:1"), ("internal", "two", "http://127.0.0.1:1"),
            ("internal", "one", f"{neutron.url}/v2.0/"),
        )
    ]  # fmt: skip
    fake.catalog = [{"type": "network", "name": "neutron", "id": "n", "endpoints": endpoints}]
    client = HttpNeutron(NeutronSettings(region="one"), Keystone(own))
    assert {segment.id for segment in await client.list_segments()} >= {*SEGMENTS}
    await client.close()
    await fake.stop()


@pytest.mark.parametrize(
    ("settings", "has_catalog", "is_sound"),
    [({}, True, True), ({}, False, False), ({"token": "t"}, True, False), ({"url": "http://n"}, False, True)],
)
def test_an_address_is_needed_where_no_catalogue_says_it(
    settings: dict[str, str], has_catalog: bool, is_sound: bool
) -> None:
    with nullcontext() if is_sound else pytest.raises(BadRequest, match="url is needed"):
        NeutronSettings(**settings).check(has_catalog=has_catalog)


async def test_roosts_own_network_api_can_be_read_as_a_neutron(data_dir: Path) -> None:
    """Another program that speaks the API, with its own paging, filters and clock."""
    cluster = Cluster(data_dir)
    try:
        await asyncio.to_thread(cluster.serve, "placement", "network")
        async with aiohttp.ClientSession() as session:

            async def make(kind: str, **members: Any) -> str:
                async with session.post(f"{cluster.url}/network/v2.0/{kind}s", json={kind: members}) as response:
                    document = await response.json()
                    assert response.status == 201, document
                    return str(document[kind]["id"])

            network = await make("network", name="routed")
            segments = [
                await make(
                    "segment", network_id=network, network_type="vlan", physical_network=f"rack{n}", segmentation_id=5
                )
                for n in (1, 2)
            ]
            subnets = [
                await make("subnet", network_id=network, segment_id=segment, ip_version=4, cidr=f"10.0.{n}.0/24")
                for n, segment in enumerate(segments)
            ]
            ports = [
                await make("port", network_id=network, fixed_ips=[{"subnet_id": subnets[n % 2]}]) for n in range(7)
            ]
        client = HttpNeutron(NeutronSettings(url=f"{cluster.url}/network", page=3), None)
        listed = {segment.id: segment.network_id for segment in await client.list_segments()}
        assert {segment: listed[segment] for segment in segments} == dict.fromkeys(segments, network)
        assert [(one.gateway_ip, one.pools) for one in sorted(await client.list_subnets(), key=lambda s: s.pools)] == [
            (f"10.0.{n}.1", ((f"10.0.{n}.2", f"10.0.{n}.254"),)) for n in (0, 1)
        ]
        page = await client.list_ports()
        assert page is not None
        assert {port.id for port in page.ports} == set(ports)
        assert {address[0] for port in page.ports for address in port.addresses} == set(subnets)
        changed = await client.list_ports(changed_since=page.changed_at)
        assert changed is not None
        assert changed.ports
        later = await client.list_ports(changed_since="2999-01-01T00:00:00Z")
        assert later is not None
        assert later.ports == []
        await client.close()
    finally:
        await asyncio.to_thread(cluster.close)
