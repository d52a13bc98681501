"""Rounds with a Neutron: a running cloud is adopted, changes are counted, and one round repairs whatever failed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from tests.fake_neutron import FakeNeutron, NoAddress
from tests.placement.neutron_cloud import Cloud
from tests.placement.nova import a_segment, clause
from tests.placement.providers import a_uuid

from roost.cli.serving.neutron import NeutronPoll
from roost.placement.rules.drift import CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED
from roost.placement.service import implied as implied_service
from roost.placement.service.audit import AUDIT, BY_ITSELF, reconcile
from roost.placement.service.neutron import read_address_figures, run_round
from roost.placement.service.neutron_view import NeutronView
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable
from roost.platform.settings import NeutronSettings
from roost.seams.neutron import NeutronUnavailable
from roost.seams.placement import IPV4_ADDRESS

Make = Callable[..., Awaitable[Cloud]]


@pytest.fixture
def make(database: Database) -> Make:
    return lambda *sizes: Cloud.make(database, *sizes)


async def test_a_running_cloud_is_adopted(make: Make) -> None:
    cloud = await make((5, 2), (50, 2))
    first = cloud.segments[0]
    servers = [a_uuid() for _ in range(5)]
    for server in servers:  # from before the swap: they claim a host only, and that another Placement holds
        cloud.neutron.add_port(first.uuid, server)
    assert await cloud.nova.boot(1, clause(first), servers=[a_uuid()]) != [], "not known yet"
    await cloud.nova.delete(next(iter(cloud.nova.hosts)))
    found = await run_round(cloud.ledger, cloud.neutron, cloud.view, dry_run=True)
    assert [(drift.kind, drift.repaired) for drift in found.drifts] == [(PORT_UNCLAIMED, False)] * 5
    assert await cloud.nova.used(first) == 0
    done = await cloud.round()
    assert [drift.repaired for drift in done.drifts] == [True] * 5
    assert (done.ports, done.segments, done.unpublished) == (5, 2, [])
    await cloud.assert_agrees()
    assert (await cloud.round()).drifts == [], "twice does nothing"
    assert all(server in cloud.nova.hosts for server in await cloud.boot(3))
    assert await cloud.nova.used(cloud.segments[1]) == 3, "the full segment's hosts are no candidates"


async def test_hot_plugged_nics_are_counted_within_a_poll(make: Make) -> None:
    cloud = await make((20, 2))
    (server,) = await cloud.boot()
    plugged = [cloud.neutron.add_port(cloud.segments[0].uuid, server) for _ in range(5)]
    assert len((await cloud.round()).drifts) == 5
    await cloud.assert_agrees()
    del cloud.neutron.ports[plugged[0]]
    boot_port = next(port for port in cloud.neutron.ports_of(server) if port not in plugged)
    del cloud.neutron.ports[boot_port]
    await cloud.round()
    await cloud.assert_agrees()
    await cloud.delete(server)
    await cloud.round()
    await cloud.assert_agrees()


@pytest.mark.parametrize("deleted", ["subnet", "segment"])
async def test_a_segment_that_lost_its_subnet_keeps_no_claim_and_no_boot_from_claiming(
    make: Make, deleted: str
) -> None:
    """Neutron tries to delete its provider once, and Placement refuses while a port's claim is on it."""
    cloud = await make((20, 2), (20, 2), (20, 2))
    gone, *others = cloud.segments
    plugged = cloud.neutron.add_port(gone.uuid, a_uuid())
    await cloud.round()
    assert await cloud.nova.held(plugged) == {gone.uuid: 1}
    del cloud.neutron.ports[plugged]
    cloud.neutron.subnets = {
        uuid: subnet for uuid, subnet in cloud.neutron.subnets.items() if subnet["segment_id"] != gone.uuid
    }
    if deleted == "segment":
        del cloud.neutron.segments[gone.uuid]
    status, _ = await cloud.nova.api.call("DELETE", f"/resource_providers/{gone.uuid}")
    assert status == 409
    cloud.segments = others
    booted = await cloud.boot(1)
    assert len(booted) == 1
    assert await cloud.nova.held(booted[0]) == {}, "until the round the network seems to have three segments"
    done = await cloud.round()
    assert {drift.kind for drift in done.drifts if drift.repaired} == {
        CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED,
    }  # fmt: skip
    assert await cloud.nova.used(gone) == 0
    (again,) = await cloud.boot(1)
    assert list((await cloud.nova.held(again)).values()) == [1]
    assert (await cloud.round()).drifts == [], "twice does nothing"
    await cloud.assert_agrees()
    status, _ = await cloud.nova.api.call("DELETE", f"/resource_providers/{gone.uuid}")
    assert status == 204


async def test_a_subnet_that_comes_again_opens_its_segment(make: Make) -> None:
    cloud = await make((20, 2), (20, 2))
    subnets = dict(cloud.neutron.subnets)
    cloud.neutron.subnets = dict(list(subnets.items())[1:])
    await cloud.round()
    _, body = await cloud.nova.api.call("GET", f"/resource_providers/{cloud.segments[0].uuid}/inventories")
    assert body["inventories"][IPV4_ADDRESS]["reserved"] == body["inventories"][IPV4_ADDRESS]["total"]
    cloud.neutron.subnets = subnets
    await cloud.round()
    await cloud.assert_agrees()
    (server,) = await cloud.boot()
    assert list((await cloud.nova.held(server)).values()) == [1]


async def test_a_port_of_nobody_is_handed_over_on_a_full_segment(make: Make) -> None:
    cloud = await make((1, 2), (9, 2))
    full = cloud.segments[0]
    port = cloud.neutron.add_port(full.uuid)
    await cloud.round()
    assert await cloud.nova.used(full) == 0
    (server,) = await cloud.nova.boot(1, clause(full))
    assert await cloud.nova.held(server) == {}, "the port has its address"
    cloud.neutron.update_port(port, device_id=server, device_owner="compute:nova")
    done = await cloud.round()
    assert [(drift.kind, drift.repaired) for drift in done.drifts] == [
        (INVENTORY_UNLIKE_POOLS, True), (PORT_UNCLAIMED, True),
    ]  # fmt: skip
    await cloud.assert_agrees()


async def test_a_shelved_servers_address_stays_and_is_taken_over(make: Make) -> None:
    cloud = await make((1, 2))
    (server,) = await cloud.boot()
    (port,) = cloud.neutron.ports_of(server)
    await cloud.nova.delete(server)  # shelve-offload
    await cloud.round()
    assert await cloud.nova.held(port) == {cloud.segments[0].uuid: 1}
    assert await cloud.nova.boot(1, cloud.network()) == [], "nobody else gets it"
    host, segment = cloud.segments[0].hosts[0], cloud.segments[0].uuid
    body = {
        "allocations": {host: {"resources": {"VCPU": 1}}, segment: {"resources": {IPV4_ADDRESS: 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": None,
    }  # fmt: skip
    status, answer = await cloud.nova.api.call("PUT", f"/allocations/{server}", body, version="1.36")
    assert status == 204, answer
    assert (await cloud.nova.held(server), await cloud.nova.held(port)) == ({segment: 1}, {})
    await cloud.assert_agrees()
    assert (await cloud.round()).drifts == []


async def test_servers_move_on_a_full_network_of_one_segment(make: Make) -> None:
    """Their clause is the same as of a boot: hosts are offered, and the claim knows who has an address."""
    cloud = await make((4, 8))
    booted = [*await cloud.boot(), *await cloud.boot(nics=2)]
    adopted = a_uuid()
    cloud.neutron.add_port(cloud.segments[0].uuid, adopted)  # its claim is of its port
    await cloud.round()
    await cloud.assert_agrees()
    assert cloud.neutron.free(cloud.segments[0].uuid) == 0
    for server in booted:
        clauses, held = cloud.pinned(server), await cloud.nova.held(server)
        migration = await cloud.nova.migrate(server, *clauses)
        assert migration is not None
        await cloud.nova.revert(server, migration)
        migration = await cloud.nova.migrate(server, *clauses)
        assert migration is not None
        await cloud.nova.confirm(migration)
        assert await cloud.nova.evacuate(server, *clauses) is not None
        assert await cloud.nova.held(server) == held
    assert await cloud.nova.boot(1, *cloud.pinned(adopted), servers=[adopted]) == [adopted], "it is unshelved"
    assert cloud.nova.refused == 0
    await cloud.assert_agrees()
    assert await cloud.boot() == [], "nobody gets an address that there is not"
    assert cloud.nova.refused <= cloud.ledger.settings.hosts_per_address, "and not all hosts are tried"
    await cloud.round()
    await cloud.assert_agrees()


PLUGS = {
    "of the user": "a port that the user had made is plugged, which the round before has counted as nobody's",
    "made": "Neutron gives its last address to a new NIC, and a boot had claimed it: that one's build fails",
}


async def plug_the_last_address(make: Make, plug: str) -> tuple[Cloud, str, list[str]]:
    """Return a cloud on whose second network a NIC was plugged that no round has seen, its server, and lost boots.

    That network has one segment, on which neither Neutron nor the ledger has a free address; two other servers are on
    it. Of a segment on which a server holds an address Nova asks for nothing more when it moves.
    """
    cloud = await make((20, 8))
    await cloud.add_network(3)
    full = cloud.others[0]
    await cloud.boot(2, on_both=True)
    (server,) = await cloud.boot()
    cloud.ledger.neutron = cloud.neutron
    port = cloud.neutron.add_port(full.uuid) if plug == "of the user" else ""
    await cloud.round()
    await cloud.assert_agrees()
    if port:
        cloud.neutron.update_port(port, device_id=server, device_owner="compute:nova")
        return cloud, server, []
    cloud.neutron.add_port(full.uuid, server)
    return cloud, server, await cloud.nova.boot(1, cloud.network(), clause(full))


@pytest.mark.parametrize("plug", PLUGS)
@pytest.mark.parametrize("action", ["migrate", "evacuate"])
async def test_a_server_with_a_nic_that_no_round_has_seen_moves_on_a_full_network(
    make: Make, action: str, plug: str
) -> None:
    cloud, server, lost = await plug_the_last_address(make, plug)
    nova, first, full = cloud.nova, cloud.segments[0], cloud.others[0]
    assert await nova.used(full) == 2 + len(lost)
    clauses = cloud.pinned(server)
    assert clauses == [cloud.network(), clause(full)], "they are those of a boot"
    if action == "migrate":
        migration = await nova.migrate(server, *clauses)
        assert migration is not None
        await nova.confirm(migration)
    else:
        assert await nova.evacuate(server, *clauses) is not None
    assert nova.refused == 0
    assert await nova.used(full) == 2 + len(lost), "nothing is added, and nothing freed"
    assert await cloud.boot(on_both=True) == [], "nobody gets an address that there is not"
    for boot in lost:
        await nova.delete(boot)
    await cloud.round()
    await cloud.assert_agrees()
    assert cloud.neutron.served(full.uuid) == 3
    assert await nova.held(server) == {first.uuid: 1}
    assert await nova.evacuate(server, *clauses) is not None
    assert await nova.held(server) == {first.uuid: 1, full.uuid: 1}, "what the port had claimed is taken over"
    await cloud.assert_agrees()


@pytest.mark.parametrize("plug", PLUGS)
async def test_who_has_no_address_gets_none_by_asking_neutron(make: Make, plug: str) -> None:
    """A server with one NIC less in Neutron than its clauses say, and one whose NIC is of another network."""
    cloud, plugged, _ = await plug_the_last_address(make, plug)
    nova, full, network = cloud.nova, cloud.others[0], cloud.network()
    (other,) = await cloud.boot()
    elsewhere = a_segment(9, 0)
    cloud.neutron.add_network({elsewhere.uuid: 9})
    cloud.neutron.add_port(elsewhere.uuid, other)
    used = await nova.used(full)
    for server, nics in ((other, 1), (plugged, 2)):
        held = await nova.held(server)
        assert await nova.evacuate(server, network, *[clause(full)] * nics) is None
        assert await nova.held(server) == held
    assert nova.refused > 0
    assert await nova.used(full) == used


async def test_neutron_is_not_asked_of_networks_with_several_segments(make: Make) -> None:
    """There a NIC of the server may be on the other segment."""
    cloud = await make((1, 2), (9, 2))
    full, wide = cloud.segments
    cloud.ledger.neutron = cloud.neutron
    assert len(await cloud.nova.boot(1, clause(full, wide), f"in_tree={full.hosts[0]}")) == 1
    (server,) = await cloud.boot(host=wide.hosts[0])
    claim = await cloud.nova.claim_of(server)
    claim["allocations"][full.uuid] = {"resources": {IPV4_ADDRESS: 1}}
    status, _ = await cloud.nova.api.call("PUT", f"/allocations/{server}", claim, version="1.28")
    assert status == 409
    assert cloud.neutron.devices_asked == []


async def test_a_boot_on_a_full_network_does_not_ask_neutron(make: Make) -> None:
    cloud, server, _ = await plug_the_last_address(make, "of the user")
    assert await cloud.boot(on_both=True) == []
    assert cloud.nova.refused > 0
    assert cloud.neutron.devices_asked == []
    assert await cloud.nova.evacuate(server, *cloud.pinned(server)) is not None
    assert cloud.neutron.devices_asked == [server], "once"


async def test_a_claim_does_not_wait_for_a_neutron_that_is_away_or_slow(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, server, _ = await plug_the_last_address(make, "of the user")
    nova, clauses, used = cloud.nova, cloud.pinned(server), await cloud.nova.used(cloud.others[0])
    assert implied_service.ASK_TIMEOUT_S <= 2
    monkeypatch.setattr(implied_service, "ASK_TIMEOUT_S", 0.05)
    for cloud.neutron.is_down, cloud.neutron.is_slow in ((True, False), (False, True)):
        refused = nova.refused
        async with asyncio.timeout(30):
            assert await nova.evacuate(server, *clauses) is None
        assert nova.refused > refused, "with the same answer as ever"
        assert await nova.used(cloud.others[0]) == used
    cloud.neutron.is_slow = False
    assert await nova.evacuate(server, *clauses) is not None


async def test_a_claim_waits_for_its_port_and_not_for_ever(make: Make) -> None:
    cloud = await make((5, 2))
    (server,) = await cloud.nova.boot(1, cloud.network())
    assert (await cloud.round()).drifts == [], "its port is being made"
    cloud.view.grace_s = -1.0
    (drift,) = (await cloud.round()).drifts
    assert (drift.kind, drift.key, drift.repaired) == (CLAIM_PORTLESS, server, True)
    await cloud.assert_agrees()
    assert (await cloud.nova.claim_of(server))["allocations"], "its host stays claimed"


async def test_without_neutron_nothing_changes(make: Make) -> None:
    cloud = await make((5, 2))
    (server,) = await cloud.boot()
    await cloud.round()
    cloud.neutron.is_down = True
    cloud.neutron.add_port(cloud.segments[0].uuid, server)
    with pytest.raises(NeutronUnavailable):
        await cloud.round()
    assert await cloud.boot() != [], "boots go on"
    cloud.neutron.is_down = False
    await cloud.round()
    await cloud.assert_agrees()


async def test_every_round_says_when_it_ended_also_one_that_changes_nothing(make: Make) -> None:
    cloud = await make((5, 2))

    async def age_s() -> float:
        _, age = await read_address_figures(cloud.ledger)
        assert age is not None
        return age

    async def pass_an_hour() -> None:
        async with cloud.ledger.database.connection() as connection:
            await connection.execute("UPDATE placement.neutron_figures SET ended_at = ended_at - interval '1 hour'")

    await pass_an_hour()
    assert 3600 <= await age_s() < 3660
    await run_round(cloud.ledger, cloud.neutron, cloud.view, dry_run=True)
    cloud.neutron.is_down = True
    with pytest.raises(NeutronUnavailable):
        await cloud.round()
    assert 3600 <= await age_s() < 3660, "neither has made anything agree"
    cloud.neutron.is_down = False
    assert (await cloud.round()).drifts == []
    assert await age_s() < 60


async def test_changes_are_read_between_whole_lists(make: Make) -> None:
    cloud = await make((20, 2))
    cloud.view = NeutronView(full_s=1e9)
    (server,) = await cloud.boot()
    await cloud.round()
    cloud.neutron.add_port(cloud.segments[0].uuid, server)
    await cloud.round()
    await cloud.assert_agrees()
    cloud.neutron.delete_ports_of(server)
    assert (await cloud.round()).drifts == [], "a deleted port is among no changes"
    cloud.view.full_s = 0.0
    await cloud.round()
    await cloud.assert_agrees()


@pytest.mark.parametrize("repairs", [Repairs.NONE, Repairs.ITSELF])
async def test_the_audit_finds_and_repairs_the_same(make: Make, repairs: Repairs) -> None:
    cloud = await make((5, 2), (9, 2))
    (server,) = await cloud.boot()
    cloud.neutron.add_port(cloud.segments[0].uuid, server)
    cloud.neutron.add_port(cloud.segments[1].uuid)
    assert await AUDIT.run(cloud.ledger, repairs=repairs) == [], "no Neutron is known"
    cloud.ledger.neutron = cloud.neutron
    drifts = await AUDIT.run(cloud.ledger, repairs=repairs)
    assert [drift.kind for drift in drifts] == [INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED]
    assert {drift.repaired for drift in drifts} == {repairs is Repairs.ITSELF}
    if repairs is Repairs.ITSELF:
        await cloud.assert_agrees()
    cloud.neutron.is_down = True
    with pytest.raises(NeutronUnavailable):
        await AUDIT.run(cloud.ledger, repairs=repairs)


async def test_the_reconciler_repairs_what_is_the_ledgers_own_while_neutron_is_down(make: Make) -> None:
    cloud = await make((5, 2))
    cloud.ledger.neutron = cloud.neutron
    cloud.neutron.is_down = True
    async with cloud.ledger.database.connection() as connection:
        await connection.execute("UPDATE placement.inventory SET used = used + 1")
    await reconcile(cloud.ledger)
    assert await BY_ITSELF.run(cloud.ledger, repairs=Repairs.NONE) == []
    cloud.neutron.is_down = False
    cloud.neutron.add_port(cloud.segments[0].uuid, a_uuid())
    await reconcile(cloud.ledger)
    await cloud.assert_agrees()


async def test_a_round_that_is_cut_off_anywhere_is_finished_by_the_next(make: Make) -> None:
    cloud = await make((40, 2), (40, 2))
    for number in range(12):
        for segment in cloud.segments:
            cloud.neutron.add_port(segment.uuid, a_uuid())
            cloud.neutron.add_port(segment.uuid)
        task = asyncio.create_task(cloud.round())
        for _ in range(4 * number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await cloud.round()
    await cloud.assert_agrees()
    assert (await cloud.round()).drifts == []


async def test_one_of_two_pollers_polls_and_the_other_takes_over(make: Make) -> None:
    cloud = await make((5, 2))
    asked: list[int] = []

    class Counting(FakeNeutron):
        number = 0

        async def list_segments(self):
            asked.append(self.number)
            return await super().list_segments()

    pollers = []
    for number in (1, 2):
        neutron = Counting(
            networks=cloud.neutron.networks, segments=cloud.neutron.segments, subnets=cloud.neutron.subnets,
            ports=cloud.neutron.ports,
        )  # fmt: skip
        neutron.number = number
        poll = NeutronPoll(cloud.ledger, neutron, NeutronSettings(url="http://x", poll_s=0.01))
        pollers.append(asyncio.create_task(poll.run()))
        async with asyncio.timeout(60):
            while number == 1 and len(asked) < 3:
                await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(60):
            while len(asked) < 20:
                await asyncio.sleep(0.01)
        assert set(asked) == {1}
        pollers[0].cancel()
        async with asyncio.timeout(60):
            while 2 not in asked:
                await asyncio.sleep(0.01)
    finally:
        for poller in pollers:
            poller.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)


async def test_the_poller_goes_on_when_neutron_or_its_connections_were_away(make: Make, database: Database) -> None:
    cloud = await make((9, 2))
    segment = cloud.segments[0]
    poll = NeutronPoll(cloud.ledger, cloud.neutron, NeutronSettings(url="http://x", poll_s=0.05, full_s=0.01))
    poller = asyncio.create_task(poll.run())

    async def counted(ports: int) -> None:
        async with asyncio.timeout(60):
            while await cloud.nova.used(segment) != ports:
                await asyncio.sleep(0.02)

    try:
        cloud.neutron.add_port(segment.uuid, a_uuid())
        await counted(1)
        cloud.neutron.is_down = True
        cloud.neutron.add_port(segment.uuid, a_uuid())
        await asyncio.sleep(0.1)
        cloud.neutron.is_down = False
        await counted(2)
        other = await Database.open(database.dsn)
        async with other.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await other.close()
        cloud.neutron.add_port(segment.uuid, a_uuid())
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(DatabaseUnavailable):
                    await counted(3)
                    break
        await cloud.assert_agrees()
    finally:
        poller.cancel()
        await asyncio.gather(poller, return_exceptions=True)


ACTIONS = (
    *("boot", "many", "many", "two", "both", "named", "delete", "migrate", "end", "evacuate", "shelve", "unshelve"),
    *("plug", "round"),
)
"""two: NICs on one network; both: one on each of two; named: a host that an administrator names."""


@pytest.mark.parametrize("seed", range(2))
async def test_hundreds_of_servers_and_every_move_agree_segment_by_segment(make: Make, seed: int) -> None:
    """No server is ever sent where no address is: `boot` raises NoAddress then. Rounds come at any moment."""
    cloud = await make((9, 6), (161, 6), (200, 6))
    await cloud.add_network(5, 30, 40)
    random, nova = Random(seed), cloud.nova
    servers: list[str] = []
    booted = 0
    shelved: list[str] = []
    migrations: dict[str, str] = {}
    for step in range(150):
        settled = [server for server in servers if server not in migrations]
        action = random.choice(ACTIONS)
        if action in ("boot", "many", "two", "both", "named"):
            host = random.choice(random.choice(cloud.segments).hosts) if action == "named" else ""
            booted_now = await cloud.boot(
                {"many": 30}.get(action, 1), nics=1 + (action == "two"), on_both=action == "both", host=host
            )
            assert not host or {nova.hosts[server] for server in booted_now} <= {host}
            servers += booted_now
            booted += len(booted_now)
        elif action == "plug" and settled:
            server = random.choice(settled)
            with contextlib.suppress(NoAddress):  # Nova's user is refused
                cloud.neutron.add_port(cloud.segment_of(server).uuid, server)
            await cloud.round()  # the bound, as below
        elif action == "delete" and settled:
            server = settled[random.randrange(len(settled))]
            servers.remove(server)
            await cloud.delete(server)
        elif action == "migrate" and settled:
            server = random.choice(settled)
            migration = await nova.migrate(server, *cloud.pinned(server))
            if migration is not None:
                migrations[server] = migration
        elif action == "end" and migrations:
            server, migration = migrations.popitem()
            await (nova.confirm(migration) if random.random() < 0.5 else nova.revert(server, migration))
        elif action == "evacuate" and settled:
            server = random.choice(settled)
            await nova.evacuate(server, *cloud.pinned(server))
        elif action == "shelve" and settled:
            server = random.choice(settled)
            servers.remove(server)
            await nova.delete(server)
            shelved.append(server)
            await cloud.round()  # the bound: until the next round the address of a shelved server is offered
        elif action == "unshelve" and shelved:
            server = shelved.pop()
            assert await nova.boot(1, *cloud.pinned(server), servers=[server]) == [server]
            servers.append(server)
        elif action == "round":
            await cloud.round()
        if step % 25 == 24:
            await cloud.round()
            await cloud.assert_agrees()
    assert booted > 300
    for server in [*servers, *shelved]:
        await cloud.delete(server)
    for migration in migrations.values():
        await nova.confirm(migration)
    await cloud.round()
    await cloud.assert_agrees()
