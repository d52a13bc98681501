"""What a round believes of a Neutron that may show a part of what there is: rules as tables, and whole rounds."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fake_neutron import ADMIN, BOTH, FakeNeutron
from tests.placement.neutron_cloud import Cloud
from tests.placement.providers import a_uuid
from tests.placement.test_neutron_rules import a_port, a_subnet, need
from tests.placement.worlds import provider

from roost.placement.rules.drift import CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED
from roost.placement.rules.neutron import Change, NeutronState, PortChange, SegmentChange, Surplus
from roost.placement.rules.neutron_sight import (
    WHERE_TOLD,
    Shortage,
    Sight,
    closes,
    describe,
    find_shortages,
    find_whole_segments,
    gives_back,
    limit_to_believed,
    list_networks_by_segment,
    mark_deleted,
    pair_claims,
)
from roost.placement.service.audit import AUDIT
from roost.placement.service.neutron_view import NeutronView
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.seams.neutron import GET_SEGMENT, GET_SEGMENT_ID, NeutronPartial, NeutronPort, NeutronSegment
from roost.seams.placement import Inventory

Make = Callable[..., Awaitable[Cloud]]


@pytest.fixture
def make(database: Database) -> Make:
    return lambda *sizes: Cloud.make(database, *sizes)


PORTS = [a_port("10.0.0.2", name="p1"), a_port("10.0.0.3", "network:dhcp", name="p2"), a_port("::5", subnet="six")]


@pytest.mark.parametrize(
    ("counts", "shortages", "whole"),
    [
        pytest.param({}, [], set(), id="Roost may not ask"),
        pytest.param({"N": {"n": 2}}, [], {"a", "b"}, id="all is shown"),
        pytest.param({"N": {"n": 1}}, [], {"a", "b"}, id="one is deleted since it was listed"),
        pytest.param({"N": {"n": 3}}, [Shortage("n", 3, 2)], {"b"}, id="one is hidden, or was made since"),
        pytest.param({"N": {"n": 2, "m": 0}}, [Shortage("m", 0, None)], {"b"}, id="a subnet is hidden, or made since"),
        pytest.param({"M": {}}, [], {"a", "b"}, id="the network is deleted, as another has a count"),
        pytest.param({"N": {}}, [], {"a", "b"}, id="its subnets are deleted since"),
        pytest.param({"N": {"n": 2}, "M": {"m": 1}}, [Shortage("m", 1, None)], {"a"}, id="another network's"),
    ],
)
def test_a_segment_is_whole_where_all_that_neutron_counts_is_shown(
    counts: Mapping[str, Mapping[str, int]], shortages: list[Shortage], whole: set[str]
) -> None:
    state = NeutronState([NeutronSegment("a", "N"), NeutronSegment("b", "M")], [a_subnet(network_id="N")], PORTS)
    assert find_shortages(state, counts) == shortages
    assert find_whole_segments({"a": "N", "b": "M"}, state, counts) == whole


def a_change(before: Inventory, after: Inventory, network: str | None = "N") -> SegmentChange:
    return SegmentChange(
        segment_uuid="a", name="", inventory=after, before=before, network_id=network, network_before="N"
    )


SURPLUS = Surplus(consumer_uuid="s", generation=1, segment_uuid="a", amount=1)
PORT = PortChange(need=need("p"), generation=None)
SIX = Inventory(6, 2)


@pytest.mark.parametrize(
    ("change", "believed"),
    [
        pytest.param(PORT, PORT, id="a port's claim takes"),
        pytest.param(SURPLUS, None, id="a claim that no port has"),
        pytest.param(a_change(SIX, Inventory(6, 3)), a_change(SIX, Inventory(6, 3)), id="more is reserved"),
        pytest.param(a_change(SIX, Inventory(6, 1)), None, id="less is reserved"),
        pytest.param(
            a_change(SIX, Inventory(9, 1)), a_change(SIX, Inventory(9, 2)), id="a larger pool, and less of it"
        ),
        pytest.param(
            a_change(SIX, Inventory(6, 1), "M"), a_change(SIX, SIX, "M"), id="less is reserved, of another network"
        ),
        pytest.param(a_change(SIX, Inventory(6, 6), None), a_change(SIX, Inventory(6, 6), None), id="it is closed"),
    ],
)
def test_elsewhere_nothing_is_given_back(change: Change, believed: Change | None) -> None:
    assert limit_to_believed(change, set()) == limit_to_believed(change, {"b"}) == believed
    assert limit_to_believed(change, {"a"}) == change
    assert gives_back(change) == (believed != change)


CLOSED = a_change(SIX, Inventory(6, 6), None)


@pytest.mark.parametrize(
    ("change", "deleted", "marked"),
    [
        pytest.param(CLOSED, ["N"], replace(CLOSED, is_deleted=True), id="its network is deleted"),
        pytest.param(CLOSED, ["M"], CLOSED, id="another is"),
        pytest.param(CLOSED, [], CLOSED, id="none is"),
        pytest.param(a_change(SIX, Inventory(6, 3)), ["N"], a_change(SIX, Inventory(6, 3)), id="it is not closed"),
        pytest.param(SURPLUS, ["N"], SURPLUS, id="a claim that no port has"),
    ],
)
def test_a_segment_is_closed_for_good_with_its_network(change: Change, deleted: list[str], marked: Change) -> None:
    assert mark_deleted(change, {"a": "N", "b": "M"}, deleted) == marked
    assert mark_deleted(change, {}, deleted) == change
    assert closes(change) == (change == CLOSED)


def a_surplus(consumer: str, amount: int = 1, segment: str = "a") -> Surplus:
    return Surplus(consumer_uuid=consumer, generation=1, segment_uuid=segment, amount=amount)


@pytest.mark.parametrize(
    ("surpluses", "needs", "expected"),
    [
        pytest.param([a_surplus("s")], [], {"s": (1, [])}, id="nobody needs it"),
        pytest.param([a_surplus("s")], ["p"], {"s": (1, ["p"])}, id="one does"),
        pytest.param([a_surplus("s"), a_surplus("t")], ["p"], {"s": (1, ["p"]), "t": (1, [])}, id="one of two"),
        pytest.param([a_surplus("s", 2)], ["p", "q", "r"], {"s": (1, ["r", "q"])}, id="two of three"),
        pytest.param([a_surplus("s", 1, "b")], ["p"], {"s": (1, [])}, id="on another segment"),
        pytest.param([a_surplus("s"), a_surplus("s", 1, "b")], ["p"], {"s": (2, ["p"])}, id="a server on two"),
    ],
)
def test_who_needs_an_address_claims_it_as_it_is_returned(
    surpluses: list[Surplus], needs: list[str], expected: Mapping[str, tuple[int, list[str]]]
) -> None:
    pairs = pair_claims(surpluses, [PortChange(need=need(port), generation=None) for port in needs])
    shown = {key: (len(parts), [port.need.port_uuid for port in ports]) for key, (parts, ports) in pairs.items()}
    assert shown == expected


async def a_cloud_of_six(make: Make) -> Cloud:
    cloud = await make((20, 2), (20, 2))
    for number in range(6):
        cloud.neutron.add_port(cloud.segments[number % 2].uuid, a_uuid())
    cloud.neutron.add_port(cloud.segments[0].uuid)
    await cloud.round()
    await cloud.assert_agrees()
    return cloud


async def books(cloud: Cloud) -> list[Any]:
    names = ("inventories", "usages")
    paths = [f"/resource_providers/{segment.uuid}/{name}" for segment in cloud.segments for name in names]
    return [await cloud.nova.api.call("GET", path) for path in paths]


ROLES = frozenset({"service"})
NOBODY = frozenset[str]()
LINES = (
    f'In Neutron\'s policy.yaml this grants it to the role service: "{GET_SEGMENT}": "role:admin or role:service"; '
    f'"{GET_SEGMENT_ID}": "role:admin or role:service"'
)


@pytest.mark.parametrize(
    ("roles", "policies", "says"),
    [
        pytest.param(ROLES, {}, LINES, id="a user with the role service, Neutron's defaults"),
        pytest.param({"reader"}, {}, "the rights? get_s", id="a user that has no role any more"),
        pytest.param(ROLES, {GET_SEGMENT_ID: BOTH}, "no segment, though the ledger knows 2", id="get_segment"),
        pytest.param(ROLES, {GET_SEGMENT: BOTH}, "on which segments its subnets are", id="get_subnet:segment_id"),
        pytest.param(ADMIN, {"get_port": NOBODY}, "ports with 0 of them: its user needs the right get_port", id="port"),
        pytest.param(ADMIN, {"get_subnet": NOBODY}, "the subnet: its user needs the right get_subnet", id="subnet"),
        pytest.param(ADMIN, {"get_network": NOBODY}, "hides 1 networks .* the right get_network", id="network"),
    ],
)
async def test_a_user_that_sees_a_part_only_is_refused_by_the_right_that_it_lacks(
    make: Make, roles: frozenset[str], policies: Mapping[str, frozenset[str]], says: str
) -> None:
    """All was counted; then it sees less, and all claims stay until it sees all again."""
    cloud = await a_cloud_of_six(make)
    before, neutron = await books(cloud), cloud.neutron
    rights, neutron.roles = dict(neutron.policies), frozenset(roles)
    neutron.policies |= policies
    for number in (1, 2):
        with pytest.raises(NeutronPartial, match=says):
            await cloud.round()
        sight = await cloud.sight()
        assert (sight.rounds_unbelieved, neutron.tokens_forgotten) == (number, number)
        assert sight.note() == f"addresses are counted as they were: {WHERE_TOLD}"
    cloud.ledger.neutron = neutron
    with pytest.raises(NeutronPartial, match=says):
        await AUDIT.run(cloud.ledger, repairs=Repairs.ALL)
    assert await books(cloud) == before
    neutron.roles, neutron.policies = ADMIN, rights
    assert (await cloud.round()).drifts == []
    assert (await cloud.sight()).note() is None


async def test_the_two_lines_of_policy_are_enough_for_the_role_service(make: Make) -> None:
    cloud = await a_cloud_of_six(make)
    cloud.neutron.roles = ROLES
    cloud.neutron.policies |= {GET_SEGMENT: BOTH, GET_SEGMENT_ID: BOTH}
    cloud.neutron.ports = {}
    assert len((await cloud.round()).drifts) == 7
    await cloud.assert_agrees()


async def test_who_sees_some_ports_is_told_so_and_not_who_reads_while_ports_come_and_go(make: Make) -> None:
    """Ports of one's own project, and of one's own networks, are shown to everybody."""
    cloud = await a_cloud_of_six(make)
    for port in [*cloud.neutron.ports][:3]:
        cloud.neutron.update_port(port, project_id=cloud.neutron.project)
    cloud.neutron.policies["get_port"] = NOBODY
    with pytest.raises(NeutronPartial, match=r"Neutron counts \d addresses on subnet .* with \d of them"):
        await cloud.round()


async def test_without_the_right_to_ask_for_its_count_nothing_is_given_back(make: Make) -> None:
    cloud = await a_cloud_of_six(make)
    first, neutron = cloud.segments[0], cloud.neutron
    neutron.policies["get_network_ip_availability"] = NOBODY
    before = await books(cloud)
    ports, neutron.ports = neutron.ports, {}
    done = await cloud.round()
    kinds = [(drift.kind, drift.repaired) for drift in done.drifts]
    assert sorted(kinds, key=str) == sorted([(CLAIM_PORTLESS, False)] * 6 + [(INVENTORY_UNLIKE_POOLS, False)], key=str)
    assert await books(cloud) == before, "neither claims, nor what was reserved for a port of nobody"
    assert "Neutron does not tell its own count" in ((await cloud.sight()).note() or "")
    cloud.ledger.neutron = neutron
    assert not any(drift.repaired for drift in await AUDIT.run(cloud.ledger, repairs=Repairs.ALL))
    neutron.ports = ports
    neutron.add_port(first.uuid, a_uuid())
    (subnet,) = [one for one in neutron.subnets.values() if one["segment_id"] == first.uuid]
    subnet["allocation_pools"].append({"start": "10.0.9.1", "end": "10.0.9.9"})
    assert [drift.repaired for drift in (await cloud.round()).drifts] == [True, True], "what takes, and new pools"
    await cloud.assert_agrees()
    neutron.ports = {}
    await cloud.round()
    neutron.policies["get_network_ip_availability"] = BOTH
    assert all(drift.repaired for drift in (await cloud.round()).drifts)
    await cloud.assert_agrees()
    sight = await cloud.sight()
    assert (sight.note(), sight.rounds_unbelieved) == (None, 3)


class Between(FakeNeutron):
    """Something happens after the list of ports was read, before the count is asked for."""

    happens: Callable[[], object] | None = None

    async def count_addresses(self, network_ids: Sequence[str]) -> dict[str, dict[str, int]]:
        if self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        return await super().count_addresses(network_ids)


def between(cloud: Cloud) -> Between:
    old = cloud.neutron
    neutron = Between(networks=old.networks, segments=old.segments, subnets=old.subnets, ports=old.ports, _now=old._now)
    cloud.neutron = neutron
    return neutron


@pytest.mark.parametrize("full", [True, False])
async def test_a_port_that_comes_between_list_and_count_only_puts_off(make: Make, full: bool) -> None:
    cloud = await a_cloud_of_six(make)
    neutron, first = between(cloud), cloud.segments[0]
    if not full:
        cloud.view = NeutronView(full_s=1e9)
        await cloud.round()
    gone = next(port for port, document in neutron.ports.items() if document["device_id"])
    del neutron.ports[gone]
    cloud.view.doubt(gone)
    neutron.happens = lambda: neutron.add_port(first.uuid, a_uuid())
    done = await cloud.round()
    assert [(drift.kind, drift.repaired) for drift in done.drifts] == [(CLAIM_PORTLESS, False)]
    assert done.sight.segments_unbelieved == (first.uuid,)
    assert "Neutron counts more addresses than it shows" in (done.sight.note() or "")
    done = await cloud.round()
    assert {(drift.kind, drift.repaired) for drift in done.drifts} == {(CLAIM_PORTLESS, True), (PORT_UNCLAIMED, True)}
    await cloud.assert_agrees()


async def test_a_port_that_goes_between_list_and_count_puts_off_nothing(make: Make) -> None:
    cloud = await a_cloud_of_six(make)
    neutron = between(cloud)
    servers = [port for port, document in neutron.ports.items() if document["device_id"]]
    del neutron.ports[servers[0]]
    neutron.happens = lambda: neutron.ports.pop(servers[2])
    assert [drift.repaired for drift in (await cloud.round()).drifts] == [True]
    assert [drift.repaired for drift in (await cloud.round()).drifts] == [True]
    await cloud.assert_agrees()


async def test_a_hidden_port_is_covered_by_the_claim_of_one_that_went(make: Make) -> None:
    """Where as many go between list and count as are hidden, the wrong claim may be returned, but none too many."""
    cloud = await a_cloud_of_six(make)
    neutron, first = between(cloud), cloud.segments[0]
    servers = [server for document in neutron.ports.values() if (server := document["device_id"])]
    on_first = [neutron.ports_of(server)[0] for server in servers if neutron.segments_of(server) == [first.uuid]]
    for port in neutron.ports:
        neutron.update_port(port, project_id=neutron.project)
    neutron.update_port(on_first[0], project_id="hidden")
    neutron.policies["get_port"] = NOBODY
    neutron.happens = lambda: neutron.ports.pop(on_first[1])
    await cloud.round()
    assert await cloud.nova.used(first) == neutron.served(first.uuid) == 2
    with pytest.raises(NeutronPartial, match="get_port"):
        await cloud.round()
    assert await cloud.nova.used(first) == 2


LOG_USE = """
CREATE TABLE placement.use_seen (used bigint);
CREATE FUNCTION placement.see_use() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO placement.use_seen SELECT min(total - reserved - used) FROM placement.inventory;
    RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER see_use AFTER UPDATE ON placement.inventory DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION placement.see_use();
"""


@pytest.mark.parametrize("owner", ["compute:nova", "network:router_gateway"])
async def test_no_write_of_a_round_offers_an_address_that_another_port_has_got(make: Make, owner: str) -> None:
    """A server's port went and another port has its address: a NIC that was plugged, or nobody's."""
    cloud = await make((5, 2))
    (segment,) = cloud.segments
    ports = [cloud.neutron.add_port(segment.uuid, a_uuid()) for _ in range(5)]
    await cloud.round()
    address = cloud.neutron.ports.pop(ports[0])["fixed_ips"][0]["ip_address"]
    cloud.neutron.add_port(segment.uuid, a_uuid() if owner == "compute:nova" else "", owner=owner, address=address)
    async with cloud.ledger.database.connection() as connection:
        await connection.execute(LOG_USE)
    done = await cloud.round()
    assert all(drift.repaired for drift in done.drifts)
    async with cloud.ledger.database.connection() as connection:
        frees = [free for (free,) in await connection.fetch("SELECT used FROM placement.use_seen")]
        await connection.execute("DROP TABLE placement.use_seen; DROP FUNCTION placement.see_use CASCADE")
    assert max(frees, default=0) == 0
    await cloud.assert_agrees()


async def test_the_last_network_is_deleted_with_its_claims_on(make: Make) -> None:
    """Another network's count shows that Roost may ask: the one without a count is gone."""
    cloud = await make((20, 2))
    (segment,) = cloud.segments
    plugged = cloud.neutron.add_port(segment.uuid, a_uuid())
    await cloud.round()
    cloud.neutron.add_network({a_uuid(): 5})
    cloud.neutron.ports = {}
    cloud.neutron.delete_network(segment.uuid)
    assert {drift.repaired for drift in (await cloud.round()).drifts} == {True}
    assert await cloud.nova.held(plugged) == {}


async def test_a_network_that_is_deleted_while_a_round_may_not_count_leaves_no_claim_and_no_provider(
    make: Make,
) -> None:
    """Neutron tries to delete a provider once, and Placement refuses while a port's claim is on it."""
    cloud = await make((20, 2), (20, 2))
    first, second = cloud.segments
    plugged = cloud.neutron.add_port(first.uuid, a_uuid())
    await cloud.round()
    cloud.neutron.ports = {}
    cloud.neutron.subnets = {
        uuid: one for uuid, one in cloud.neutron.subnets.items() if one["segment_id"] != first.uuid
    }
    cloud.neutron.policies["get_network_ip_availability"] = NOBODY
    assert not any(drift.repaired for drift in (await cloud.round()).drifts), "it is known until nothing is claimed"
    assert await cloud.nova.held(plugged) == {first.uuid: 1}
    status, _ = await cloud.nova.api.call("DELETE", f"/resource_providers/{first.uuid}")
    assert status == 409
    cloud.neutron.delete_network(first.uuid)
    cloud.neutron.add_network({a_uuid(): 5})
    cloud.neutron.policies["get_network_ip_availability"] = BOTH
    assert {drift.repaired for drift in (await cloud.round()).drifts} == {True}
    assert await cloud.nova.held(plugged) == {}
    for segment in (first, second):
        status, _ = await cloud.nova.api.call("GET", f"/resource_providers/{segment.uuid}")
        assert status == 404, segment
    assert (await cloud.round()).drifts == [], "twice does nothing"


async def test_what_a_round_saw_is_kept(make: Make) -> None:
    cloud = await a_cloud_of_six(make)
    neutron, unpublished = cloud.neutron, a_uuid()
    network = neutron.add_network({unpublished: 5})
    elsewhere = neutron.add_network({a_uuid(): 5})
    next(one for one in neutron.subnets.values() if one["network_id"] == elsewhere)["segment_id"] = None
    await cloud.round()
    sight = await cloud.sight()
    assert replace(sight, rounds_unbelieved=0) == Sight(
        user=neutron.who_asks(), segments=4, segments_unpublished=(unpublished,), subnets_on_segments=3,
        subnets_elsewhere=1,
        networks_uncounted={network: f"Neutron has not published its segment {unpublished}"},
    )  # fmt: skip


def test_a_segment_is_of_the_network_that_neutron_says_else_of_the_one_that_the_ledger_knows() -> None:
    state = NeutronState([NeutronSegment("a", "N"), NeutronSegment("b", "M")], [], [])
    known = {name: provider(1, network_id="old") for name in ("b", "gone")} | {"new": provider(2)}
    assert list_networks_by_segment(state, known) == {"a": "N", "b": "M", "gone": "old"}


def test_what_a_round_saw_is_described() -> None:
    subnets = [a_subnet("n", "a", network_id="N"), a_subnet("m", "b", network_id="M")]
    state = NeutronState([NeutronSegment("a", "N"), NeutronSegment("b", "M")], subnets, [])
    saw = describe(state, user="u", may_count=False, unpublished=["b"], unbelieved=["a"])
    assert (saw.user, saw.may_count, saw.segments, saw.subnets_on_segments) == ("u", False, 2, 2)
    assert (saw.segments_unpublished, saw.segments_unbelieved) == (("b",), ("a",))
    assert saw.networks_uncounted == {"M": "Neutron has not published its segment b"}


def test_a_port_of_no_address_hides_nothing() -> None:
    state = NeutronState([], [a_subnet(network_id="N")], [NeutronPort(id="p", device_id="s")])
    assert find_shortages(state, {"N": {"n": 0}}) == []
