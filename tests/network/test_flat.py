"""Flat networks of the legacy kind: their rules, and addresses of servers assigned and given back without a port."""

import asyncio
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.cloud import NEVER, PROJECT, Cloud, assert_sound
from tests.network.test_api import Api

from roost.network.errors import InvalidInput, SubnetInUse
from roost.network.model import AddressRange, FixedIpRequest, Network, PortRequest, Subnet
from roost.network.rules import addressing, flat
from roost.network.rules.drift import FLAT_CLAIM_WRONG
from roost.network.rules.flat import Allocation, FlatAddress
from roost.network.service import audit_flat
from roost.network.service import networks as network_service
from roost.network.service import ports as port_service
from roost.network.service import subnets as subnet_service
from roost.network.service.reconciler import reconcile_once
from roost.platform.drift import Repairs
from roost.seams.network import Allocated, AllocateRefused, EnsuredPorts, FlatNic, FlatWanted, Nic, PortsRefused
from roost.seams.network import ServerNics as Server
from roost.seams.placement import IPV4_ADDRESS, Claimed, ClaimGroup, ConsumerClaim

FLAT = Network(
    id="flat", name="net", project_id=PROJECT, description="", network_type=None, physical_network=None,
    segmentation_id=None, revision=1, created_at=NEVER, updated_at=NEVER, flat=True,
)  # fmt: skip
PLAIN = msgspec.structs.replace(FLAT, id="plain", flat=False)


def pool(name: str, cell: str | None, first: str = "10.0.0.2", last: str = "10.0.0.6", **more: Any) -> Subnet:
    fields: dict[str, Any] = {
        "id": name, "network_id": "flat", "segment_id": None, "name": "", "description": "", "project_id": PROJECT,
        "ip_version": 4, "cidr": "10.0.0.0/29", "gateway_ip": "10.0.0.1", "enable_dhcp": True, "deleting": False,
        "revision": 1, "created_at": NEVER, "updated_at": NEVER, "cell": cell,
        "pools": (AddressRange(addressing.parse(first), addressing.parse(last)),),
    }  # fmt: skip
    return Subnet(**{**fields, **more})


# Rules.


@pytest.mark.parametrize(
    ("network", "subnet", "said"),
    [
        (FLAT, pool("p", "cell1"), None),
        (PLAIN, pool("p", None), None),
        (PLAIN, pool("p", "cell1"), "roost:cell cell1: network plain is not of roost:kind flat"),
        (FLAT, pool("p", None), "name the cell of the pool as roost:cell"),
        (FLAT, pool("p", "cell1", segment_id="s"), "no segment_id"),
        (FLAT, pool("p", "cell1", service_types=("compute:nova",)), "no service_types"),
        (FLAT, pool("p", "cell1", ip_version=6), "are IPv4"),
        (FLAT, pool("p", "cell1", pools=()), "name allocation_pools"),
    ],
)
def test_exactly_the_subnets_of_flat_networks_are_pools_of_cells(
    network: Network, subnet: Subnet, said: str | None
) -> None:
    if said is None:
        flat.refuse_subnet(network, subnet)
        return
    with pytest.raises(InvalidInput, match=said):
        flat.refuse_subnet(network, subnet)


NIC = Nic(tag="0", network_id="flat")


@pytest.mark.parametrize(
    ("nics", "pools", "taken", "said"),
    [
        ((NIC,), [pool("p", "cell1")], {}, None),
        ((NIC,), [], {}, "Network flat has no pool in any cell"),
        ((msgspec.structs.replace(NIC, fixed_ip="10.0.0.3"),), [pool("p", "cell1")], {}, None),
        ((msgspec.structs.replace(NIC, fixed_ip="10.0.0.1"),), [pool("p", "cell1")], {}, "10.0.0.1 is in no pool"),
        ((msgspec.structs.replace(NIC, fixed_ip="2001:db8::1"),), [pool("p", "cell1")], {}, "is in no pool"),
        (
            (msgspec.structs.replace(NIC, fixed_ip="10.0.0.3"),), [pool("p", "cell1")],
            {("flat", "10.0.0.3"): "other"}, "IP address 10.0.0.3 of network flat is server other's",
        ),
        (
            (msgspec.structs.replace(NIC, fixed_ip="10.0.0.3"),), [pool("p", "cell1")],
            {("flat", "10.0.0.3"): "server"}, None,
        ),
        ((Nic(tag="0", network_id="plain"),), [], {}, None),
        ((Nic(tag="0", port_id="port"),), [], {}, None),
    ],
)  # fmt: skip
def test_a_nic_that_can_be_had_from_no_pool_is_refused_before_a_host_is_chosen(
    nics: tuple[Nic, ...], pools: list[Subnet], taken: dict[tuple[str, str], str], said: str | None
) -> None:
    server = Server(server_id="server", project_id=PROJECT, nics=nics)
    reason = flat.refuse_nics(server, {"flat": FLAT, "plain": PLAIN}, {"flat": pools}, taken)
    assert (reason is None) if said is None else (reason is not None and said in reason)


def test_a_fixed_address_leaves_only_its_pool_and_nics_with_ports_are_left_alone() -> None:
    pools = [pool("p1", "cell1"), pool("p2", "cell2", "10.0.1.2", "10.0.1.6")]
    nics = (
        Nic(tag="0", network_id="plain"), Nic(tag="1", network_id="flat", fixed_ip="10.0.1.4"),
        Nic(tag="2", network_id="flat"), Nic(tag="3", port_id="port"),
    )  # fmt: skip
    server = Server(server_id="server", project_id=PROJECT, nics=nics)
    networks = {"flat": FLAT, "plain": PLAIN}
    views = flat.view_nics(server, networks, {"flat": pools}, {})
    assert [(view.tag, view.pools) for view in views] == [("1", ("p2",)), ("2", ("p1", "p2"))]
    assert [nic.tag for nic in flat.without_flat(server, networks).nics] == ["0", "3"]


def held(tag: str, subnet_id: str, address: str = "10.0.0.2", ticket: int = 1) -> FlatAddress:
    return FlatAddress(
        server_id="server", tag=tag, network_id="flat", subnet_id=subnet_id, address=address,
        mac_address="fa:16:3e:00:00:01", ticket=ticket,
    )  # fmt: skip


def wanted(pools: dict[str, str], ticket: int = 1, **fixed: str) -> FlatWanted:
    return FlatWanted(
        server_id="server", ticket=ticket, pools_by_tag=pools, fixed_ips_by_tag={"0": fixed["ip"]} if fixed else {}
    )


POOLS = {"p1": pool("p1", "cell1"), "p2": pool("p2", "cell2"), "p3": pool("p3", "cell1")}


@pytest.mark.parametrize(
    ("want", "has", "kept", "dropped", "assigned"),
    [
        (wanted({"0": "p1"}), [], [], [], ["0"]),
        (wanted({"0": "p1"}), [held("0", "p1")], ["0"], [], []),
        (wanted({"0": "p1"}), [held("0", "p2")], [], ["0"], ["0"]),
        (wanted({"0": "p1", "1": "p3"}), [held("0", "p1"), held("1", "p1")], ["0"], ["1"], ["1"]),
        (wanted({"0": "p1"}), [held("0", "p1"), held("1", "p1")], ["0"], ["1"], []),
        (wanted({"0": "p1"}, ip="10.0.0.3"), [held("0", "p1")], [], ["0"], ["0"]),
        (wanted({"0": "p1"}, ip="10.0.0.3"), [held("0", "p1", "10.0.0.3")], ["0"], [], []),
    ],
)
def test_an_address_in_the_pool_that_is_wanted_stays_and_others_go(
    want: FlatWanted, has: list[FlatAddress], kept: list[str], dropped: list[str], assigned: list[str]
) -> None:
    decided = flat.decide_allocation(want, cell="cell1", held=has, pools=POOLS)
    assert isinstance(decided, Allocation)
    assert [item.tag for item in decided.kept] == kept
    assert [item.tag for item in decided.dropped] == dropped
    assert [item.tag for item in decided.demands] == assigned


@pytest.mark.parametrize(
    ("want", "has", "said", "final"),
    [
        (wanted({"0": "p1"}, ticket=1), [held("0", "p1", ticket=2)], "taken over", False),
        (wanted({"0": "p2"}), [], "belongs to cell cell2, and the server's host to cell cell1", False),
        (wanted({"0": "p9"}), [], "no pool p9 any more", False),
        (wanted({"0": "p1"}, ip="10.0.0.1"), [], "10.0.0.1 is not in pool", True),
    ],
)
def test_what_was_overtaken_or_belongs_to_another_cell_is_refused(
    want: FlatWanted, has: list[FlatAddress], said: str, final: bool
) -> None:
    decided = flat.decide_allocation(want, cell="cell1", held=has, pools=POOLS)
    assert isinstance(decided, AllocateRefused)
    assert said in decided.reason
    assert decided.final is final


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), unique_by=lambda row: row[0])
HOLDINGS = st.dictionaries(st.sampled_from(["0", "1", "2", "host"]), st.integers(1, 4))


@given(ROWS, HOLDINGS)
def test_a_server_is_to_claim_as_many_of_each_pool_as_it_has_and_all_else_that_it_holds(
    rows: list[tuple[int, int]], amounts: dict[str, int]
) -> None:
    items = [held(str(tag), str(subnet)) for tag, subnet in rows]
    has = {uuid: {"VCPU" if uuid == "host" else IPV4_ADDRESS: amount} for uuid, amount in amounts.items()}
    claim = flat.server_claim(has, items, ["0", "1", "2"])
    assert claim.get("host") == has.get("host")
    for subnet in ("0", "1", "2"):
        count = sum(item.subnet_id == subnet for item in items)
        assert claim.get(subnet) == ({IPV4_ADDRESS: count} if count else None)


def test_a_pool_is_called_by_its_cell_and_by_its_cidr_where_the_cell_has_several() -> None:
    names = flat.pool_names([pool("a", "cell1"), pool("b", "cell2"), pool("c", "cell2", cidr="10.0.1.0/29")])
    assert names == {"a": "cell1", "b": "cell2 (10.0.0.0/29)", "c": "cell2 (10.0.1.0/29)"}


# The service, on the real ledger.


async def claim(cloud: Cloud, server_id: str, allocations: dict[str, int]) -> bool:
    """As the conductor does, without a host."""
    held = await cloud.networks.placement.get_consumers([server_id])
    consumer = ConsumerClaim(
        consumer_uuid=server_id, generation=held[server_id].generation if held else None, consumer_type="INSTANCE",
        project_id=PROJECT, user_id=PROJECT,
        allocations={uuid: {IPV4_ADDRESS: count} for uuid, count in allocations.items()},
    )  # fmt: skip
    return isinstance((await cloud.networks.placement.claim([ClaimGroup((consumer,))]))[0], Claimed)


async def boot(cloud: Cloud, network: Network, cell: str, pool_id: str, *, fixed_ip: str | None = None) -> str:
    """A server with one address of a pool, claimed and allocated; its id."""
    server = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip=fixed_ip))
    assert await claim(cloud, server.server_id, {pool_id: 1})
    (answer,) = await cloud.client.allocate_flat(cell, [await want(cloud, server, {"0": pool_id})])
    assert isinstance(answer, Allocated), answer
    return server.server_id


async def want(cloud: Cloud, server: Server, pools: dict[str, str]) -> FlatWanted:
    (seen,) = await cloud.client.get_flat_nics([server])
    fixed = {nic.tag: nic.fixed_ip for nic in seen.nics if nic.fixed_ip}
    return FlatWanted(server_id=server.server_id, ticket=seen.ticket, pools_by_tag=pools, fixed_ips_by_tag=fixed)


async def two_cells(cloud: Cloud) -> tuple[Network, str, str]:
    """A network with five addresses in cell1 and five in cell2; its pools."""
    network = await cloud.flat(cell1="10.1.0.0/29", cell2="10.2.0.0/29")
    pools = {pool.cell: pool.id for pool in await subnet_service.list_subnets(cloud.networks)}
    return network, pools["cell1"], pools["cell2"]


async def assert_clean(cloud: Cloud) -> None:
    await assert_sound(cloud)
    async with cloud.networks.database.transaction() as tx:
        assert await tx.fetch("SELECT * FROM network.flat_address") == []


async def test_a_pool_is_a_sharing_provider_that_its_cells_hosts_reach(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    await cloud.client.set_hosts({"a": [], "b": ["rack1"], "c": []}, cells_by_host={"b": "cell2", "c": "cell3"})
    view = (await cloud.client.get_networks([network.id]))[network.id]
    assert (view.flat, view.routed) == (True, True)
    assert {segment.name for segment in view.segments} == {"cell1", "cell2"}
    aggregates = {segment.provider_uuid: segment.placement_aggregate for segment in view.segments}
    assert cloud.compute.members[aggregates[one]] == {"a"}
    assert cloud.compute.members[aggregates[two]] == {"b"}
    assert await cloud.used(one) == (5, 0)
    await cloud.client.set_hosts({"a": []}, cells_by_host={"a": "cell2"})
    assert cloud.compute.members[aggregates[one]] == set()
    assert cloud.compute.members[aggregates[two]] == {"a", "b"}
    assert await cloud.client.get_segment_names([one]) == {one: "cell1"}


async def test_no_port_is_made_for_a_flat_network_and_one_that_a_client_asks_for_is_refused(cloud: Cloud) -> None:
    network, *_ = await two_cells(cloud)
    plain = await cloud.plain()
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=plain.id))
    (answer,) = await cloud.client.ensure_ports([server])
    assert isinstance(answer, EnsuredPorts)
    assert [(port.tag, port.network_id) for port in answer.ports] == [("1", plain.id)]
    for named in (None, (), (FixedIpRequest(ip_address="10.1.0.4"),)):
        request = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=named)
        with pytest.raises(InvalidInput, match="roost:kind flat and has no ports"):
            await port_service.create_port(cloud.networks, request)


async def test_a_server_whose_address_is_in_no_pool_is_refused_and_others_of_the_batch_are_not(cloud: Cloud) -> None:
    network, *_ = await two_cells(cloud)
    plain = await cloud.plain("10.9.0.0/29")
    good = cloud.server(Nic(tag="0", network_id=plain.id))
    bad = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.9.0.2"))
    first, second = await cloud.client.ensure_ports([bad, good])
    assert isinstance(first, PortsRefused)
    assert "is in no pool" in first.reason
    assert isinstance(second, EnsuredPorts)
    assert len(second.ports) == 1


async def test_addresses_come_from_the_pool_that_was_claimed_and_go_back_to_it(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    first = await boot(cloud, network, "cell1", one)
    second = await boot(cloud, network, "cell2", two)
    await assert_sound(cloud)
    views = await cloud.client.get_flat_nics(
        [Server(server_id=s, project_id=PROJECT, nics=(nic_on(network),)) for s in (first, second)]
    )
    assert [view.nics[0].address for view in views] == ["10.1.0.2", "10.2.0.2"]
    assert views[0].nics[0].mac_address != views[1].nics[0].mac_address
    await cloud.client.release_ports(
        [Server(server_id=s, project_id=PROJECT, nics=()) for s in (first, second)], restore=True
    )
    await assert_clean(cloud)


def nic_on(network: Network) -> Nic:
    return Nic(tag="0", network_id=network.id)


async def test_allocating_again_changes_nothing_and_a_lower_ticket_is_shut_out(cloud: Cloud) -> None:
    network, one, _two = await two_cells(cloud)
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=network.id))
    early = await want(cloud, server, {"0": one, "1": one})
    assert await claim(cloud, server.server_id, {one: 2})
    late = await want(cloud, server, {"0": one, "1": one})
    (first,) = await cloud.client.allocate_flat("cell1", [late])
    (again,) = await cloud.client.allocate_flat("cell1", [late])
    assert isinstance(first, Allocated)
    assert first == again
    assert {nic.address for nic in first.nics} == {"10.1.0.2", "10.1.0.3"}
    (refused,) = await cloud.client.allocate_flat("cell1", [early])
    assert isinstance(refused, AllocateRefused)
    await cloud.client.unassign_flat({(server.server_id, tag): early.ticket for tag in "01"})
    assert len(await nics(cloud, server)) == 2
    await cloud.client.unassign_flat({(server.server_id, tag): late.ticket for tag in "01"})
    assert await nics(cloud, server) == []
    await assert_clean(cloud)


async def nics(cloud: Cloud, server: Server) -> list[FlatNic]:
    return [nic for nic in (await cloud.client.get_flat_nics([server]))[0].nics if nic.address]


async def test_a_server_that_moves_to_another_pool_leaves_its_address_behind(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    server_id = await boot(cloud, network, "cell1", one)
    server = Server(server_id=server_id, project_id=PROJECT, nics=(nic_on(network),))
    assert await claim(cloud, server_id, {two: 1})
    (answer,) = await cloud.client.allocate_flat("cell2", [await want(cloud, server, {"0": two})])
    assert isinstance(answer, Allocated)
    assert [nic.address for nic in await nics(cloud, server)] == ["10.2.0.2"]
    await assert_sound(cloud)
    other = await boot(cloud, network, "cell1", one)
    again = await nics(cloud, Server(server_id=other, project_id=PROJECT, nics=(nic_on(network),)))
    assert [nic.address for nic in again] == ["10.1.0.2"]


async def test_a_fixed_address_is_given_once_and_only_that_one(cloud: Cloud) -> None:
    network, one, _ = await two_cells(cloud)
    named = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4"))
    rival = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4"))
    for server in (named, rival):
        assert await claim(cloud, server.server_id, {one: 1})
    wants = [await want(cloud, server, {"0": one}) for server in (named, rival)]
    answers = [(await cloud.client.allocate_flat("cell1", [one_want]))[0] for one_want in wants]
    assert isinstance(answers[0], Allocated)
    assert answers[0].nics[0].address == "10.1.0.4"
    assert isinstance(answers[1], AllocateRefused)
    assert answers[1].final
    (early,) = await cloud.client.ensure_ports([rival])
    assert isinstance(early, PortsRefused)
    assert named.server_id in early.reason
    await assert_sound(cloud)


async def test_servers_at_once_never_get_the_same_address(cloud: Cloud) -> None:
    network = await cloud.flat(cell1="10.1.0.0/26")
    (one,) = [pool.id for pool in await subnet_service.list_subnets(cloud.networks)]
    await asyncio.gather(*(boot(cloud, network, "cell1", one) for _ in range(30)))
    async with cloud.networks.database.transaction() as tx:
        assert len(await tx.fetch("SELECT DISTINCT address FROM network.flat_address")) == 30
    await assert_sound(cloud)


async def test_two_that_allocate_for_one_server_at_once_leave_it_one_address_for_each_nic(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    server = cloud.server(nic_on(network))
    assert await claim(cloud, server.server_id, {one: 1})
    wants = [
        (cell, await want(cloud, server, {"0": pool_id})) for cell, pool_id in (("cell1", one), ("cell2", two)) * 4
    ]
    await asyncio.gather(*(cloud.client.allocate_flat(cell, [item]) for cell, item in wants))
    assert [nic.provider_uuid for nic in await nics(cloud, server)] == [two]
    await assert_sound(cloud)


async def test_the_reconciler_takes_addresses_of_servers_that_are_gone_and_no_others(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    building, ended, running = [await boot(cloud, network, "cell1", one) for _ in range(3)]
    cloud.compute.unfinished = {building}
    cloud.compute.existing = {running}
    await cloud.networks.placement.release([ended, running])  # a running server's address stays, whatever is claimed
    assert await claim(cloud, building, {two: 1})
    assert (await reconcile_once(cloud.networks)).unassigned == 1
    assert (await reconcile_once(cloud.networks)).unassigned == 0
    async with cloud.networks.database.transaction() as tx:
        left = {row[0] for row in await tx.fetch("SELECT server_id FROM network.flat_address")}
    assert left == {building, running}
    await assert_sound(cloud)


async def test_an_audit_finds_and_repairs_claims_of_running_servers_that_are_not_their_addresses(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    servers = [await boot(cloud, network, "cell1", one) for _ in range(4)]
    right, large, elsewhere, building = servers
    cloud.compute.unfinished, cloud.compute.existing = {building}, {right, large, elsewhere}
    assert await audit_flat.CLAIMS.run(cloud.networks, repairs=Repairs.ALL) == []
    assert await claim(cloud, large, {one: 2})
    assert await claim(cloud, elsewhere, {two: 1})
    assert await claim(cloud, building, {two: 1})
    found = await audit_flat.CLAIMS.run(cloud.networks, repairs=Repairs.NONE)
    assert {(drift.kind, drift.key, drift.repaired) for drift in found} == {
        (FLAT_CLAIM_WRONG, uuid, False) for uuid in (large, elsewhere)
    }
    assert all(drift.repaired for drift in await audit_flat.CLAIMS.run(cloud.networks, repairs=Repairs.ALL))
    assert await audit_flat.CLAIMS.run(cloud.networks, repairs=Repairs.ALL) == []
    assert (await cloud.used(one), await cloud.used(two)) == ((5, 3), (5, 1))
    await assert_sound(cloud)


async def test_a_pool_in_use_stays_and_one_that_is_deleted_leaves_nothing(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    await cloud.client.set_hosts({"a": []})
    server_id = await boot(cloud, network, "cell1", one)
    with pytest.raises(SubnetInUse, match="Servers have addresses"):
        await subnet_service.delete_subnet(cloud.networks, one)
    await cloud.client.release_ports([Server(server_id=server_id, project_id=PROJECT, nics=())], restore=False)
    with pytest.raises(SubnetInUse):  # it is claimed still: a build may be on its way to it
        await subnet_service.delete_subnet(cloud.networks, one)
    assert await cloud.used(one) == (5, 1)
    await cloud.networks.placement.release([server_id])
    await network_service.delete_network(cloud.networks, network.id)
    assert await cloud.networks.placement.list_usages([one, two]) == {}
    assert cloud.compute.aggregates == {}
    await assert_clean(cloud)


async def test_a_flat_network_takes_no_segment_and_no_provider_attributes(cloud: Cloud) -> None:
    network, *_ = await two_cells(cloud)
    with pytest.raises(InvalidInput, match="no segments"):
        await cloud.segment(network, "rack1")
    with pytest.raises(InvalidInput, match="no provider"):
        await cloud.network(flat=True, physical_network="rack1")
    assert str(uuid.UUID(network.id)) == network.id


# The Network API.


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


async def refused(api: Api, method: str, path: str, body: Any) -> tuple[int, str]:
    """(status, the error's type), with a message."""
    status, answer = await api.call(method, f"/v2.0/{path}", body)
    assert answer["NeutronError"]["message"], answer
    return status, answer["NeutronError"]["type"]


async def test_a_flat_network_is_made_shown_and_deleted_over_the_api(api: Api, cloud: Cloud) -> None:
    network = await api.make("network", name="legacy", **{"roost:kind": "flat"})
    assert (network["roost:kind"], network["provider:network_type"]) == ("flat", None)
    pool = await api.make(
        "subnet", network_id=network["id"], cidr="192.0.2.0/28", ip_version=4, **{"roost:cell": "cell2"},
        allocation_pools=[{"start": "192.0.2.4", "end": "192.0.2.6"}], gateway_ip="192.0.2.1",
    )  # fmt: skip
    assert pool["roost:cell"] == "cell2"
    assert await cloud.used(pool["id"]) == (3, 0)
    other = await api.make("network", name="other")
    assert other["roost:kind"] is None
    for path, key, found in (
        ("networks?roost:kind=flat", "networks", network["id"]),
        ("subnets?roost:cell=cell2", "subnets", pool["id"]),
    ):
        _, answer = await api.call("GET", f"/v2.0/{path}")
        assert [item["id"] for item in answer[key]] == [found]
    server = await boot(cloud, await network_service.get_network(cloud.networks, network["id"]), "cell2", pool["id"])
    _, answer = await api.call("GET", f"/v2.0/network-ip-availabilities/{network['id']}")
    shown = answer["network_ip_availability"]
    assert (shown["total_ips"], shown["used_ips"]) == (3, 1)
    assert await refused(api, "DELETE", f"networks/{network['id']}", None) == (409, "NetworkInUse")
    await cloud.client.release_ports([Server(server_id=server, project_id=PROJECT, nics=())], restore=False)
    await cloud.networks.placement.release([server])
    assert (await api.call("DELETE", f"/v2.0/networks/{network['id']}"))[0] == 204


async def test_the_api_refuses_what_a_flat_network_cannot_be(api: Api) -> None:
    made = await api.make("network", name="legacy", **{"roost:kind": "flat"})
    network = made["id"]
    plain = (await api.make("network", name="plain"))["id"]
    pool = {"network_id": network, "cidr": "192.0.2.0/28", "ip_version": 4}
    cases: list[tuple[str, str, Any]] = [
        ("POST", "networks", {"network": {"roost:kind": "round"}}),
        ("POST", "networks", {"network": {"roost:kind": "flat", "provider:network_type": "vxlan"}}),
        ("PUT", f"networks/{network}", {"network": {"roost:kind": None}}),
        ("POST", "segments", {"segment": {"network_id": network, "network_type": "vxlan"}}),
        ("POST", "ports", {"port": {"network_id": network}}),
        ("POST", "ports", {"ports": [{"network_id": network}]}),
        ("POST", "subnets", {"subnet": pool}),
        ("POST", "subnets", {"subnet": {**pool, "roost:cell": ""}}),
        ("POST", "subnets", {"subnet": {**pool, "network_id": plain, "roost:cell": "cell1"}}),
    ]
    for method, path, body in cases:
        assert (await refused(api, method, path, body))[0] == 400, body
    made_pool = await api.make("subnet", **pool, **{"roost:cell": "cell1"})
    change = {"subnet": {"allocation_pools": [{"start": "192.0.2.4", "end": "192.0.2.6"}]}}
    assert (await refused(api, "PUT", f"subnets/{made_pool['id']}", change))[0] == 400
    named = {"subnet": {"name": "first", "dns_nameservers": ["192.0.2.1"]}}
    assert (await api.call("PUT", f"/v2.0/subnets/{made_pool['id']}", named))[0] == 200
