"""Flat networks of the legacy kind: their rules, and addresses of servers assigned and given back without a port."""

import asyncio
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.cloud import NEVER, PROJECT, Cloud, assert_sound
from tests.network.parts import a_provider
from tests.network.test_api import Api

from roost.network.errors import InvalidInput, SubnetInUse
from roost.network.model.networks import AddressRange, Host, Link, Network, Subnet
from roost.network.model.ports import Address, FixedIpRequest, Port, PortFilter, PortOrigin, PortRequest
from roost.network.rules import addressing, flat, port_bindings
from roost.network.rules.drift import FLAT_CLAIM_WRONG
from roost.network.rules.port_bindings import Assignment, Reservation
from roost.network.service import audit_ports
from roost.network.service import networks as network_service
from roost.network.service import ports as port_service
from roost.network.service import subnets as subnet_service
from roost.network.service.quotas import QUOTAS
from roost.network.service.reconciler import reconcile_once
from roost.platform.drift import Repairs
from roost.platform.quotas import QuotaUsage
from roost.seams import network as seam
from roost.seams.network import BindRefused, Bound, EnsuredPorts, Nic, PortBind, PortsRefused
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
        "ip_version": 4, "cidr": "10.0.0.0/29", "gateway_ip": "10.0.0.1", "enable_dhcp": True,
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
    reason = flat.refuse_nics(server, {"flat": pools}, taken)
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.parametrize(
    ("nic", "pools"),
    [
        (Nic(tag="0", network_id="plain"), None),
        (Nic(tag="0", port_id="port"), None),
        (Nic(tag="0", network_id="flat"), ["p1", "p2"]),
        (Nic(tag="0", network_id="flat", fixed_ip="10.0.1.4"), ["p2"]),
        (Nic(tag="0", network_id="flat", fixed_ip="10.0.2.4"), []),
    ],
)
def test_a_fixed_address_leaves_only_its_pool_and_other_networks_have_none(nic: Nic, pools: list[str] | None) -> None:
    both = [pool("p1", "cell1"), pool("p2", "cell2", "10.0.1.2", "10.0.1.6")]
    found = flat.pools_of(nic, {"flat": both})
    assert (None if found is None else [item.id for item in found]) == pools


def test_an_address_that_was_asked_for_pins_the_port_before_it_has_it() -> None:
    nic = Nic(tag="0", network_id="flat", fixed_ip="10.0.0.3")
    server = Server(server_id="server", project_id=PROJECT, nics=(nic,))
    port = flat.with_pools(port_bindings.planned_port(server, nic, "port"), nic, {"flat": [pool("p", "cell1")]})
    assert (port.pools, port.pinned, port.fixed_ip, port.revision) == (("p",), True, "10.0.0.3", 0)
    planned = port_bindings.planned_port(server, NIC, "port")
    assert planned == seam.Port(
        id="port", tag="0", network_id="flat", project_id=PROJECT, mac_address="", revision=0,
        preserve_on_delete=False, needs_address=True, is_held=False,
    )  # fmt: skip
    port = flat.with_pools(planned, NIC, {"flat": [pool("p", "cell1")]})
    assert (port.pools, port.pinned, port.fixed_ip, port.needs_address) == (("p",), False, None, True)
    assert flat.with_pools(planned, NIC, {"another": [pool("p", "cell1")]}) == planned


@pytest.mark.parametrize(("placed", "new"), [(False, []), (True, [("0", "flat")])])
def test_ports_on_flat_networks_are_made_when_the_host_is_known(placed: bool, new: list[tuple[str, str]]) -> None:
    network = msgspec.structs.replace(FLAT, subnet_ids=("p",))
    server = Server(server_id=str(uuid.uuid4()), project_id=PROJECT, nics=(NIC,))
    (decided,) = port_bindings.decide_reservations([server], {"flat": network}, {}, now=NEVER, placed=placed)
    assert isinstance(decided, Reservation)
    assert len(decided.port_ids) == 1
    assert [(port.nic_tag, port.network_id) for port in decided.new] == new
    quota = {PROJECT: QuotaUsage(PROJECT, "port", 0, 0)}
    assert port_bindings.refuse_over_quota([decided], quota) == [decided]


PORT = Port(
    id="port", network_id="flat", project_id=PROJECT, name="", description="", mac_address="fa:16:3e:00:00:01",
    admin_state_up=True, device_id="server", device_owner="compute:nova", ip_allocation="deferred", host=None,
    vnic_type="normal", binding_profile="{}", vif_type="unbound", made_for="server", reserved_from=PortOrigin(),
    revision=3, created_at=NEVER, updated_at=NEVER, nic_tag="0",
)  # fmt: skip
HAS = Address(
    subnet_id="p", address="10.0.0.2", port_id="port", in_pool=True, claimed=False, provider_uuid="p",
    assigned_for="server",
)  # fmt: skip
ELSEWHERE = "belongs to cell cell1, and host h to another"


@pytest.mark.parametrize(
    ("cell", "port", "fixed_ip", "answer"),
    [
        ("cell1", PORT, None, None),
        ("cell1", PORT, "10.0.0.3", "10.0.0.3"),
        ("cell2", PORT, None, ELSEWHERE),
        ("cell2", msgspec.structs.replace(PORT, addresses=(HAS,)), None, ELSEWHERE),
        ("cell1", msgspec.structs.replace(PORT, revision=4), None, "changed meanwhile"),
        (None, PORT, None, ELSEWHERE),
    ],
)
def test_a_port_gets_an_address_of_its_hosts_cell_which_its_server_claims(
    cell: str | None, port: Port, fixed_ip: str | None, answer: str | None
) -> None:
    bind = PortBind(port_id="port", server_id="server", host="h", provider_uuid="p", revision=3, fixed_ip=fixed_ip)
    host = None if cell is None else Host(name="h", physical_networks=frozenset(), cell=cell)
    behind = {"p": a_provider("p", None, pool("p", "cell1"), cell="cell1")}
    decided = port_bindings.decide_bind(bind, port, host, behind)
    if isinstance(decided, BindRefused):
        assert answer is not None
        assert answer in decided.reason
        return
    assert isinstance(decided, Assignment)
    (demand,) = decided.demands
    assert (demand.subnet_ids, demand.claimed) == (("p",), False)
    assert demand.address == (None if answer is None else addressing.parse(answer))


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), unique_by=lambda row: row[0])
HOLDINGS = st.dictionaries(st.sampled_from(["0", "1", "2", "host"]), st.integers(1, 4))


@given(ROWS, HOLDINGS)
def test_a_server_is_to_claim_as_many_of_each_pool_as_it_has_and_all_else_that_it_holds(
    rows: list[tuple[int, int]], amounts: dict[str, int]
) -> None:
    items = [(str(subnet), f"10.0.{subnet}.{address}") for address, subnet in rows]
    has = {uuid: {"VCPU" if uuid == "host" else IPV4_ADDRESS: amount} for uuid, amount in amounts.items()}
    claim = flat.server_claim(has, items, ["0", "1", "2"])
    assert claim.get("host") == has.get("host")
    for subnet in ("0", "1", "2"):
        count = sum(pool_id == subnet for pool_id, _ in items)
        assert claim.get(subnet) == ({IPV4_ADDRESS: count} if count else None)


@pytest.mark.parametrize(
    ("network", "refusals"),
    [
        (FLAT, ["no ports", "no segments"]),
        (PLAIN, []),
        *(
            (msgspec.structs.replace(FLAT, **attribute), ["no ports", "no segments", "no provider"])
            for attribute in (
                {"network_type": "vlan"}, {"physical_network": "rack1"}, {"segmentation_id": 0},
                {"links": (Link(network_type="vlan"),)},
            )
        ),
        (msgspec.structs.replace(PLAIN, network_type="vlan", physical_network="rack1", segmentation_id=7), []),
    ],
)  # fmt: skip
def test_a_flat_network_has_no_ports_segments_and_provider_attributes(network: Network, refusals: list[str]) -> None:
    rules = [(flat.refuse_port, "no ports"), (flat.refuse_segment, "no segments"), (flat.refuse_network, "no provider")]
    for rule, words in rules:
        if words in refusals:
            with pytest.raises(InvalidInput, match=words):
                rule(network)
        else:
            rule(network)


def test_of_a_claim_only_addresses_are_shown() -> None:
    claim = {"p2": {IPV4_ADDRESS: 1}, "host": {"VCPU": 2}, "p1": {IPV4_ADDRESS: 3}}
    assert flat.show_claim(claim, {"p1", "p2", "p3"}) == "3 IPV4_ADDRESS of p1, 1 IPV4_ADDRESS of p2"
    assert flat.show_claim(claim, set()) == "none"


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


HOSTS = {"cell1": "a", "cell2": "b", "cell3": "c"}


async def boot(cloud: Cloud, network: Network, cell: str, pool_id: str, *, fixed_ip: str | None = None) -> str:
    """A server with one address of a pool, claimed and allocated; its id."""
    server = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip=fixed_ip))
    assert await claim(cloud, server.server_id, {pool_id: 1})
    (answer,) = await bind(cloud, server, cell, pool_id)
    assert isinstance(answer, Bound), answer
    return server.server_id


async def ensured(cloud: Cloud, server: Server, *, placed: bool = True) -> tuple[seam.Port, ...]:
    (answer,) = await cloud.client.ensure_ports([server], placed=placed)
    assert isinstance(answer, EnsuredPorts), answer
    return answer.ports


async def bind(cloud: Cloud, server: Server, cell: str, *pools: str) -> list[Bound | BindRefused]:
    """Its ports get addresses of these pools on the host of the cell."""
    return await cloud.client.bind_ports(binds(await ensured(cloud, server), server, cell, *pools))


def binds(seen: tuple[seam.Port, ...], server: Server, cell: str, *pools: str) -> list[PortBind]:
    return [
        PortBind(
            port_id=port.id, server_id=server.server_id, host=HOSTS[cell], provider_uuid=pool_id,
            revision=port.revision, fixed_ip=port.fixed_ip,
        )
        for port, pool_id in zip(seen, pools, strict=True)
    ]  # fmt: skip


async def two_cells(cloud: Cloud) -> tuple[Network, str, str]:
    """A network with five addresses in cell1 and five in cell2; its pools."""
    network = await cloud.flat(cell1="10.1.0.0/29", cell2="10.2.0.0/29")
    await hosts_in_cells(cloud)
    pools = {pool.cell: pool.id for pool in await subnet_service.list_subnets(cloud.networks)}
    return network, pools["cell1"], pools["cell2"]


async def hosts_in_cells(cloud: Cloud) -> None:
    await cloud.client.set_hosts({host: [] for host in HOSTS.values()}, cells_by_host={h: c for c, h in HOSTS.items()})


async def assert_clean(cloud: Cloud) -> None:
    await assert_sound(cloud)
    assert await held(cloud) == []


async def held(cloud: Cloud) -> list[tuple[str, str]]:
    """Servers with their addresses."""
    async with cloud.networks.database.transaction() as tx:
        rows = await tx.fetch(
            "SELECT p.made_for, a.address FROM network.port p JOIN network.address a ON a.port_id = p.id"
            " WHERE p.nic_tag IS NOT NULL ORDER BY a.address"
        )
    return [(row["made_for"], row["address"]) for row in rows]


async def test_a_pool_is_a_sharing_provider_that_its_cells_hosts_reach(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    await cloud.client.set_hosts({"b": ["rack1"]}, cells_by_host={"b": "cell2"})
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


async def test_no_port_is_there_before_a_host_is_chosen_and_none_that_a_client_sees(cloud: Cloud) -> None:
    network, *_ = await two_cells(cloud)
    plain = await cloud.plain()
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=plain.id))
    planned, made = await ensured(cloud, server, placed=False)
    assert (planned.revision, planned.network_id, len(planned.pools)) == (0, network.id, 2)
    shown = await port_service.list_ports(cloud.networks, PortFilter())
    assert [port.id for port in shown] == [made.id]
    hidden, again = await ensured(cloud, server)
    assert (hidden.id, hidden.revision, again) == (planned.id, 1, made)
    assert await port_service.list_ports(cloud.networks, PortFilter()) == shown
    assert (await QUOTAS.get_usages(cloud.networks, PROJECT))["port"].used == 1
    theirs = Server(server_id=str(uuid.uuid4()), project_id=PROJECT, nics=(Nic(tag="0", port_id=hidden.id),))
    (refused,) = await cloud.client.ensure_ports([theirs])
    assert refused == PortsRefused(theirs.server_id, f"Port {hidden.id} could not be found.")
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
    views = await cloud.client.list_attached_ports([first, second])
    (one_nic,), (two_nic,) = views[first], views[second]
    assert [(nic.id, nic.tag, nic.addresses) for nic in (one_nic, two_nic)] == [
        (None, "0", ("10.1.0.2",)), (None, "0", ("10.2.0.2",)),
    ]  # fmt: skip
    assert one_nic.mac_address != two_nic.mac_address
    await cloud.client.release_ports(
        [Server(server_id=s, project_id=PROJECT, nics=()) for s in (first, second)], restore=True
    )
    await assert_clean(cloud)


def nic_on(network: Network) -> Nic:
    return Nic(tag="0", network_id=network.id)


async def test_binding_again_changes_nothing_and_an_earlier_revision_is_shut_out(cloud: Cloud) -> None:
    network, one, _two = await two_cells(cloud)
    server = cloud.server(Nic(tag="0", network_id=network.id), Nic(tag="1", network_id=network.id))
    early = await ensured(cloud, server)
    assert await claim(cloud, server.server_id, {one: 2})
    first = await bind(cloud, server, "cell1", one, one)
    again = await bind(cloud, server, "cell1", one, one)
    assert first == again
    assert [address for _, address in await held(cloud)] == ["10.1.0.2", "10.1.0.3"]
    for refused in await cloud.client.bind_ports(binds(early, server, "cell2", one, one)):
        assert isinstance(refused, BindRefused)
        assert refused.changed
    await cloud.client.unassign_ports({port.id: port.revision for port in early})
    assert len(await held(cloud)) == 2
    await cloud.client.unassign_ports({port.id: port.revision for port in await ensured(cloud, server)})
    await assert_clean(cloud)


async def test_a_server_that_moves_to_another_pool_leaves_its_address_behind(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    server_id = await boot(cloud, network, "cell1", one)
    server = Server(server_id=server_id, project_id=PROJECT, nics=(nic_on(network),))
    assert await claim(cloud, server_id, {two: 1})
    (port,) = await ensured(cloud, server)
    await cloud.client.unassign_ports({port.id: port.revision})
    (answer,) = await bind(cloud, server, "cell2", two)
    assert isinstance(answer, Bound)
    assert await held(cloud) == [(server_id, "10.2.0.2")]
    await assert_sound(cloud)
    other = await boot(cloud, network, "cell1", one)
    assert await held(cloud) == [(other, "10.1.0.2"), (server_id, "10.2.0.2")]


async def test_a_fixed_address_is_given_once_and_only_that_one(cloud: Cloud) -> None:
    network, one, _ = await two_cells(cloud)
    named = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4"))
    rival = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4"))
    for server in (named, rival):
        assert await claim(cloud, server.server_id, {one: 1})
    asked = [binds(await ensured(cloud, server), server, "cell1", one)[0] for server in (named, rival)]
    first, second = await cloud.client.bind_ports(asked)
    assert isinstance(first, Bound)
    assert first.addresses == ("10.1.0.4",)
    assert isinstance(second, BindRefused)
    (early,) = await cloud.client.ensure_ports([rival])
    assert isinstance(early, PortsRefused)
    assert named.server_id in early.reason
    await assert_sound(cloud)


async def test_servers_at_once_never_get_the_same_address(cloud: Cloud) -> None:
    network = await cloud.flat(cell1="10.1.0.0/26")
    await hosts_in_cells(cloud)
    (one,) = [pool.id for pool in await subnet_service.list_subnets(cloud.networks)]
    await asyncio.gather(*(boot(cloud, network, "cell1", one) for _ in range(30)))
    assert len({address for _, address in await held(cloud)}) == 30
    await assert_sound(cloud)


async def test_two_that_allocate_for_one_server_at_once_leave_it_one_address_for_each_nic(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    server = cloud.server(nic_on(network))
    assert await claim(cloud, server.server_id, {one: 1, two: 1})
    answers = await asyncio.gather(
        *(bind(cloud, server, cell, pool_id) for cell, pool_id in (("cell1", one), ("cell2", two)) * 4)
    )
    first = next(answer for (answer,) in answers if isinstance(answer, Bound))
    assert await held(cloud) == [(server.server_id, first.addresses[0])]
    await assert_sound(cloud)


async def test_the_reconciler_takes_addresses_of_servers_that_are_gone_and_no_others(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    building, ended, running = [await boot(cloud, network, "cell1", one) for _ in range(3)]
    cloud.compute.unfinished = {building}
    cloud.compute.existing = {running}
    await cloud.client.settle_ports([running])
    await cloud.networks.placement.release([ended, running])  # a running server's address stays, whatever is claimed
    assert await claim(cloud, building, {two: 1})
    assert (await reconcile_once(cloud.networks)).parted == 1
    assert (await reconcile_once(cloud.networks)).parted == 0
    assert {server_id for server_id, _ in await held(cloud)} == {building, running}
    await assert_sound(cloud)


async def test_an_audit_finds_and_repairs_claims_of_running_servers_that_are_not_their_addresses(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
    servers = [await boot(cloud, network, "cell1", one) for _ in range(4)]
    right, large, elsewhere, building = servers
    cloud.compute.unfinished, cloud.compute.existing = {building}, {right, large, elsewhere}
    assert await audit_ports.FLAT_CLAIMS.run(cloud.networks, repairs=Repairs.ALL) == []
    assert await claim(cloud, large, {one: 2})
    assert await claim(cloud, elsewhere, {two: 1})
    assert await claim(cloud, building, {two: 1})
    found = await audit_ports.FLAT_CLAIMS.run(cloud.networks, repairs=Repairs.NONE)
    assert {(drift.kind, drift.key, drift.repaired) for drift in found} == {
        (FLAT_CLAIM_WRONG, uuid, False) for uuid in (large, elsewhere)
    }
    assert all(drift.repaired for drift in await audit_ports.FLAT_CLAIMS.run(cloud.networks, repairs=Repairs.ALL))
    assert await audit_ports.FLAT_CLAIMS.run(cloud.networks, repairs=Repairs.ALL) == []
    assert (await cloud.used(one), await cloud.used(two)) == ((5, 3), (5, 1))
    await assert_sound(cloud)


async def test_a_pool_in_use_stays_and_one_that_is_deleted_leaves_nothing(cloud: Cloud) -> None:
    network, one, two = await two_cells(cloud)
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
    await hosts_in_cells(cloud)
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
