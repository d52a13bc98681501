"""Lists over HTTP: filters of every kind, order, pages and their links."""

from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest
from starlette.datastructures import QueryParams
from tests.network.cloud import Cloud
from tests.network.test_api import Api, routed

from roost.network.api import fields
from roost.network.model.networks import ListFilter, ListQuery, ListRow
from roost.network.rules import documents
from roost.network.service import lists
from roost.network.store import lists as list_rows
from roost.network.store import networks as network_rows
from roost.platform.http import canonical_uuid


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def listed(api: Api, path: str) -> list[Any]:
    status, answer = await api.call("GET", f"/v2.0/{path}")
    assert status == 200, answer
    found: list[Any] = answer[path.partition("?")[0]]
    return found


async def test_every_attribute_is_a_filter_that_finds_what_has_it(api: Api, cloud: Cloud) -> None:
    network, segment, subnet = await routed(api, cloud)
    fixed = [{"ip_address": "203.0.113.2"}]
    port = await api.make("port", network_id=network["id"], name="web", fixed_ips=fixed, tags=["red"])
    await api.make("port", network_id=network["id"], name="other")
    (network,) = await listed(api, "networks")
    for many, item in (("networks", network), ("segments", segment), ("subnets", subnet), ("ports", port)):
        for name, value in item.items():
            if isinstance(value, dict | list):
                continue
            found = await listed(api, f"{many}?{name}={'' if value is None else value}")
            assert item["id"] in {one["id"] for one in found}, (many, name)
            if name != "revision_number" and not isinstance(value, bool):
                assert await listed(api, f"{many}?{name}=nothing-like-it") == []
    for query, names in (
        ("name=web&name=other", {"web", "other"}),
        ("fixed_ips=ip_address_substr=0.113.", {"web"}),
        ("fixed_ips=ip_address_substr=0.114", set()),
        ("fixed_ips=ip_address_substr=0.114&fixed_ips=ip_address_substr=0.113", {"web"}),
        (f"fixed_ips=subnet_id={subnet['id']}&name=other", set()),
        (f"fixed_ips=subnet_id={subnet['id']},ip_address=203.0.113.2", {"web"}),
        (f"mac_address={port['mac_address'].upper()}", {"web"}),
        (f"mac_address={port['mac_address'].replace(':', '-')}", {"web"}),
        ("binding:host_id=", {"web", "other"}),
        ("admin_state_up=True", {"web", "other"}),
        ("admin_state_up=false", set()),
        ("admin_state_up=0&admin_state_up=1", {"web", "other"}),
        (f"changed_since={port['updated_at']}", {"web", "other"}),
        ("changed_since=2020-01-01", {"web", "other"}),
        ("changed_since=2999-01-01T00:00:00%2B01:00", set()),
        ("tags=red", {"web"}),
        ("tags=%00", set()),
        ("not-tags=red,%00", {"web", "other"}),
        ("not-tags-any=red", {"other"}),
        ("mac_address=%00", set()),
        ("fixed_ips=ip_address=no-address", set()),
        (f"id={port['id'].replace('-', '').upper()}", {"web"}),
        ("device_id=%00", set()),
    ):
        assert {one["name"] for one in await listed(api, f"ports?{query}")} == names, query


async def test_a_filter_or_an_order_that_there_is_not_is_a_400_of_an_empty_list_too(api: Api) -> None:
    for query in (
        "colour=red", "sort_key=colour", "sort_key=name&sort_dir=up", "limit=-1", "fixed_ips=x=y",
        "admin_state_up=maybe", "changed_since=yesterday", "changed_since=0001-01-01T00:00:00%2B01:00",
    ):  # fmt: skip
        status, answer = await api.call("GET", f"/v2.0/ports?{query}")
        assert status == 400, query
    status, answer = await api.call("GET", "/v2.0/ports?colour=red")
    assert answer["NeutronError"]["message"] == "['colour'] is invalid attribute for filtering"


@pytest.mark.parametrize(
    "order", ["", "fields=name&", "sort_key=name&sort_dir=desc&", "sort_key=admin_state_up&sort_key=name&"]
)
async def test_pages_lead_from_the_first_to_the_last_and_back(api: Api, cloud: Cloud, order: str) -> None:
    network = await cloud.network()
    many = [{"network_id": network.id, "name": f"p{number}", "admin_state_up": number % 2 == 0} for number in range(7)]
    await api.call("POST", "/v2.0/ports", {"ports": many})
    whole = [one["name"] for one in await listed(api, f"ports?{order}fields=name")]
    assert (await api.call("GET", f"/v2.0/ports?{order}limit=100&fields=id"))[1]["ports_links"][0]["rel"] == "previous"
    link, seen, pages = f"/v2.0/ports?{order}limit=3", [], []
    while link:
        _, answer = await api.call("GET", link)
        seen += [one["name"] for one in answer["ports"]]
        pages.append(answer)
        links = {one["rel"]: one["href"] for one in answer["ports_links"]}
        assert all(href.startswith("http://roost.test/network/v2.0/ports?") for href in links.values())
        link = links.get("next", "").removeprefix("http://roost.test/network")
    assert (seen, [len(page["ports"]) for page in pages]) == (whole, [3, 3, 1])
    back = {one["rel"]: one["href"] for one in pages[1]["ports_links"]}["previous"]
    _, answer = await api.call("GET", back.removeprefix("http://roost.test/network"))
    assert answer["ports"] == pages[0]["ports"]


async def test_what_looks_like_an_id_and_is_none_is_found_as_it_is_written(api: Api, cloud: Cloud) -> None:
    """Keystone's projects are UUIDs without hyphens, and a device may be any text."""
    project, device = "e9142f69afa04c1d9a49e9b5ae2f2c6b", "0D6DEB1C-F0A0-4E6C-A6BC-6A4C7C1F5A38"
    network = await api.make("network", project_id=project)
    port = await api.make("port", network_id=network["id"], project_id=project, device_id=device)
    await api.make("subnet", network_id=network["id"], project_id=project, cidr="10.1.0.0/24")
    for many in ("networks", "subnets", "ports"):
        for name in ("project_id", "tenant_id"):
            assert len(await listed(api, f"{many}?{name}={project}")) == 1, (many, name)
            assert await listed(api, f"{many}?{name}={canonical_uuid(project)}") == []
    for name in ("project_id", "tenant_id"):
        _, answer = await api.call("GET", f"/v2.0/network-ip-availabilities?{name}={project}")
        assert [one["network_id"] for one in answer["network_ip_availabilities"]] == [network["id"]]
    await api.call("PUT", f"/v2.0/quotas/{project}", {"quota": {"port": 5}})
    assert [one["port"] for one in await listed(api, f"quotas?project_id={project}")] == [5]
    assert [one["id"] for one in await listed(api, f"ports?device_id={device}")] == [port["id"]]
    assert [one["id"] for one in await listed(api, f"networks?subnets={network['id'].upper()}")] == []
    identifiers = {
        kind: {n for n, item in lists.FILTERS[kind].items() if item.values == "uuid"} for kind in lists.FILTERS
    }
    assert (identifiers["network"], identifiers["subnet"]) == ({"id", "subnets"}, {"id", "network_id", "segment_id"})


async def test_pages_of_what_has_no_id_end(api: Api) -> None:
    """Keystone's projects look like ids: as one that was written otherwise, a page's last would begin the next."""
    projects = [f"e9142f69afa04c1d9a49e9b5ae2f2c6{number}" for number in range(3)]
    for project in projects:
        await api.call("PUT", f"/v2.0/quotas/{project}", {"quota": {"port": 5}})
    for marker, reverse, page in (
        (projects[0], False, projects[1:]),
        (projects[2], False, []),
        (projects[2], True, projects[:2]),
        (projects[0], True, []),
    ):
        shown = await listed(api, f"quotas?limit=2&page_reverse={reverse}&marker={marker}")
        assert [one["project_id"] for one in shown] == page, (marker, reverse)


async def test_what_a_request_says_a_thousand_times_is_done_once(
    api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a", "b"):
        await api.make("network", name=name)
    names_asked, queries, getlist, list_rows = Counter[str](), list[ListQuery](), QueryParams.getlist, lists.list_rows

    def count_reads(query: QueryParams, name: Any) -> Any:
        names_asked[name] += 1
        return getlist(query, name)

    async def record(context: Any, kind: Any, query: ListQuery) -> list[ListRow]:
        queries.append(query)
        return await list_rows(context, kind, query)

    monkeypatch.setattr(QueryParams, "getlist", count_reads)
    monkeypatch.setattr(lists, "list_rows", record)
    query = "&".join(["sort_key=name&sort_dir=desc"] + ["sort_key=mtu&sort_key=name&fields=name"] * 50)
    assert [one["name"] for one in await listed(api, f"networks?{query}")] == ["b", "b", "a"]
    assert [query.order for query in queries] == [(("name", True), ("mtu", False), ("id", False))]
    assert names_asked["fields"] == 1


async def test_addresses_are_looked_through_for_a_hundred_parts_and_no_more(api: Api, cloud: Cloud) -> None:
    """For 2,800 of them, and 25,000 addresses, it took a worker two seconds."""
    await routed(api, cloud)
    query = "fixed_ips=" + ",".join(f"ip_address_substr=0.{number}" for number in range(100))
    assert await listed(api, f"ports?{query}") == []
    status, answer = await api.call("GET", f"/v2.0/ports?{query}&fixed_ips=ip_address_substr=x")
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")


async def test_no_field_is_every_field_and_a_page_may_be_longer_than_any_list(api: Api, cloud: Cloud) -> None:
    network = await cloud.network()
    (whole,) = await listed(api, "networks")
    assert await listed(api, "networks?fields=") == [whole]
    assert await listed(api, "networks?fields=&fields=id") == [{"id": network.id}]
    assert (await api.call("GET", f"/v2.0/networks/{network.id}?fields="))[1] == {"network": whole}
    assert await listed(api, "networks?limit=1000000") == [whole]


async def test_a_page_goes_on_where_its_marker_was(api: Api, cloud: Cloud) -> None:
    network = await cloud.network()
    body = {"ports": [{"network_id": network.id}] * 3}
    _, answer = await api.call("POST", "/v2.0/ports", body)
    _first, second, third = sorted(port["id"] for port in answer["ports"])
    await api.call("DELETE", f"/v2.0/ports/{second}")
    assert [one["id"] for one in await listed(api, f"ports?limit=1&marker={second}")] == [third]
    assert (await api.call("GET", f"/v2.0/ports?sort_key=name&limit=1&marker={second}"))[0] == 400


async def test_what_the_database_narrows_is_all_that_is_read(api: Api, cloud: Cloud) -> None:
    """Filters by which clients find a few of many are the database's, and so are pages."""
    network = await cloud.plain("10.0.0.0/28")
    await api.call("POST", "/v2.0/ports", {"ports": [{"network_id": network.id, "name": f"p{n}"} for n in range(10)]})
    (one,) = await listed(api, "ports?name=p5")
    subnet, address = one["fixed_ips"][0]["subnet_id"], one["fixed_ips"][0]["ip_address"]
    for name, value, count in (
        ("name", "p5", 1),
        ("mac_address", one["mac_address"], 1),
        ("ip_address", address, 1),
        ("ip_address_substr", address, 1),
        ("subnet_id", subnet, 10),
        ("binding:host_id", "h1", 0),
        ("binding:host_id", "", 10),
        ("device_owner", "compute:", 0),
        ("project_id", one["project_id"], 10),
        ("id", one["id"], 1),
    ):
        query = ListQuery(filters=(ListFilter(name, [value]),))
        assert len(await lists.list_rows(cloud.networks, "port", query)) == count, name
    whole = await lists.list_rows(cloud.networks, "port", ListQuery())
    assert await lists.list_rows(cloud.networks, "port", ListQuery(limit=4)) == whole[:4]
    assert await lists.list_rows(cloud.networks, "port", ListQuery(after=whole[4].position, limit=4)) == whole[5:9]
    assert (
        await lists.list_rows(cloud.networks, "port", ListQuery(after=whole[4].position, limit=3, reverse=True))
        == whole[1:4]
    )


MANY_PORTS = """
INSERT INTO network.port (id, network_id, project_id, mac_address, device_id, ip_allocation)
SELECT gen_random_uuid(), ('00000000-0000-4000-8000-' || lpad((n % 500)::text, 12, '0'))::uuid, 'p', 'mac-' || n,
    'device-' || n, 'none'
FROM generate_series(1, 5000) AS n
"""


async def test_a_few_ports_of_many_are_found_without_reading_them_all(cloud: Cloud) -> None:
    nobody = "11111111-1111-4111-8111-111111111111"
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(MANY_PORTS)
        await tx.execute("ANALYZE network.port")
        for query in (
            *(
                ListQuery(filters=(ListFilter(name, [value]),))
                for name, value in (
                    ("id", nobody), ("network_id", nobody), ("device_id", "device-77"), ("ip_address", "10.0.0.7"),
                    ("subnet_id", nobody),
                )
            ),
            ListQuery(after=(nobody,), limit=5),
            ListQuery(seen_by="nobody"),
        ):  # fmt: skip
            reads = [node for node in await plan_of(tx, "port", query) if node.get("Relation Name") == "port"]
            assert reads
            assert all(any("Index Cond" in part for part in nodes(read)) for read in reads), query


MANY_NETWORKS = """
INSERT INTO network.network (id, name, project_id)
SELECT gen_random_uuid(), 'n' || n, 'p' FROM generate_series(1, 10000) AS n
"""


async def test_a_page_of_ten_of_ten_thousand_networks_reads_ten(
    api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cloud.networks.database.transaction() as tx:
        await tx.execute(MANY_NETWORKS)
        await tx.execute("ANALYZE network.network")
        middle = "77777777-7777-4777-8777-777777777777"
        for query in (ListQuery(limit=10), ListQuery(after=(middle,), limit=10), ListQuery(limit=10, reverse=True)):
            reads = [node for node in await plan_of(tx, "network", query) if "Relation Name" in node]
            assert sum(node["Actual Rows"] for node in reads) == 10, query
    shown: list[int] = []
    list_networks = network_rows.list_networks

    async def record(*arguments: Any) -> Any:
        found = await list_networks(*arguments)
        shown.append(len(found))
        return found

    monkeypatch.setattr(network_rows, "list_networks", record)
    for order in ("", "&sort_key=name&sort_dir=desc", "&name=n7&name=n8", "&page_reverse=True"):
        await listed(api, f"networks?limit=10{order}")
    assert shown == [10, 10, 2, 10]


async def test_the_ports_of_a_device_are_looked_up_and_not_searched_for(cloud: Cloud) -> None:
    """Its index has no ports without a device; a plan for all values uses it only where the statement says so too."""
    query = ListQuery(filters=(ListFilter("device_id", ["a"]),), limit=10)
    statement, _ = list_rows.compose("port", query)
    async with cloud.networks.database.transaction() as tx:
        await tx.execute("SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan")
        await tx.execute(f"PREPARE ports_of_device AS {statement}")
        plan = await tx.fetchval("EXPLAIN (FORMAT JSON) EXECUTE ports_of_device (ARRAY['a'], 10)")
        assert "port_device" in plan


async def plan_of(tx: Any, kind: Any, query: ListQuery) -> list[Any]:
    statement, arguments = list_rows.compose(kind, query)
    (plan,) = msgspec.json.decode(await tx.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments))
    return nodes(plan["Plan"])


def nodes(plan: Any) -> list[Any]:
    """The plan's steps, without the queries that are run once before it."""
    inner = [part for part in plan.get("Plans", ()) if part["Parent Relationship"] not in ("InitPlan", "SubPlan")]
    return [plan, *(node for part in inner for node in nodes(part))]


async def test_networks_segments_and_subnets_are_narrowed_by_their_network_and_name(api: Api, cloud: Cloud) -> None:
    one, segment, subnet = await routed(api, cloud)
    other = await cloud.network()
    await cloud.segment(other, None)
    for query, ids in (
        (f"segments?name={segment['name']}", [segment["id"]]),
        (f"segments?name={segment['name']}&network_id={other.id}", []),
        ("networks?name=public", [one["id"]]),
        (f"networks?provider:segmentation_id={segment['segmentation_id']}&name=public", [one["id"]]),
        ("networks?provider:segmentation_id=&name=public", []),
        ("subnets?name=", [subnet["id"]]),
        ("subnets?name=x", []),
        (f"subnets?network_id={other.id}", []),
    ):
        assert [item["id"] for item in await listed(api, query)] == ids, query
    assert [item["name"] for item in await listed(api, "segments?name=")] == [None]


async def test_every_order_and_its_pages_are_those_of_what_is_shown(api: Api, cloud: Cloud) -> None:
    """Whatever orders a list, here or in the database: null first, texts by their code points, ids between equals."""
    await routed(api, cloud)
    for name, segment in (("ä", 7), ("Z", None), ("a", 300), ("a", None)):
        made = await api.make("network", name=name, mtu=1000 + len(name))
        carrier = {"network_type": "vlan", "physical_network": f"x{name}", "segmentation_id": segment}
        if segment is not None:
            await api.make("segment", network_id=made["id"], name=name, **carrier)
        else:
            await api.make("subnet", network_id=made["id"], cidr="10.9.0.0/24", ip_version=4, name=name)
        await api.make("port", network_id=made["id"], name=name, tags=[name])
    for many, kind in (
        ("networks", documents.NetworkDocument), ("segments", documents.SegmentDocument),
        ("subnets", documents.SubnetDocument), ("ports", documents.PortDocument),
    ):  # fmt: skip
        whole = await listed(api, many)
        assert len(whole) > 1
        for name in fields.attributes(kind):
            for direction in ("asc", "desc"):
                order = f"{many}?sort_key={name}&sort_dir={direction}"
                if name not in lists.SORTED[many[:-1]]:
                    status, answer = await api.call("GET", f"/v2.0/{order}")
                    assert status == 400
                    assert f"['{name}'] is invalid attribute for sort_keys: expected one of " in str(answer)
                    assert ", ".join(sorted(lists.SORTED[many[:-1]])) in str(answer)
                    continue
                expected = sorted(whole, key=partial(comparable, name), reverse=direction == "desc")
                ids = [item["id"] for item in expected]
                assert [item["id"] for item in await listed(api, order)] == ids, order
                middle = len(ids) // 2
                after = await listed(api, f"{order}&limit=2&marker={ids[middle]}")
                assert [item["id"] for item in after] == ids[middle + 1 : middle + 3], order
                before = await listed(api, f"{order}&limit=2&marker={ids[middle]}&page_reverse=True")
                assert [item["id"] for item in before] == ids[:middle][-2:], order


def comparable(name: str, item: Any) -> Any:
    value = item.get(name)
    return value is not None, "" if value is None else value


def test_all_attributes_are_known_by_the_names_that_clients_use() -> None:
    assert fields.attributes(documents.PortDocument)["binding:host_id"] == "host_id"


async def test_subnets_are_filtered_by_whether_their_network_is_shared(api: Api) -> None:
    for name, shared in (("ours", True), ("mine", False)):
        network = await api.make("network", shared=shared)
        await api.make("subnet", network_id=network["id"], cidr="10.0.0.0/24", ip_version=4, name=name)
    for query, names in (
        ("shared=True", {"ours"}),
        ("shared=false", {"mine"}),
        ("shared=1&shared=0", {"ours", "mine"}),
        ("shared=True&name=mine", set()),
        ("shared=true&limit=5", {"ours"}),
    ):
        assert {subnet["name"] for subnet in await listed(api, f"subnets?{query}")} == names, query
    assert "shared" not in (await listed(api, "subnets"))[0]
    status, answer = await api.call("GET", "/v2.0/subnets?shared=maybe")
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
    assert (await api.call("GET", "/v2.0/subnets?sort_key=shared"))[0] == 400
