"""Records that went back in time: an agent's mark proves it, and nothing is done until the hosts have listed."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.conductor.test_moves import booted
from tests.conductor.world import World

from roost.compute.model.work import MoveKind
from roost.compute.rules.drift import WENT_BACK
from roost.compute.rules.recoveries import ANOTHER_DATABASE
from roost.compute.service import audit, guests
from roost.compute.service import hosts as host_service
from roost.compute.service import recovery as service
from roost.compute.service import servers as server_service
from roost.compute.service import unknown_guests as unknown_service
from roost.compute.service.guests import Polls
from roost.compute.service.work import list_launches
from roost.compute.store.guests import PENDING_HOSTS
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.seams.agent import (
    SERVICE_VERSION,
    AgentIdentity,
    GuestNic,
    GuestReport,
    GuestsBody,
    ListedGuest,
    Polled,
    Refusal,
)

HOSTS = ("h1", "h2")
ANOTHER = "4d6e2f10-0000-4000-8000-000000000001"
NEW = replace(AGENT, service_version=SERVICE_VERSION)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts(*HOSTS, reach=["rack1"])
    for host in HOSTS:
        await made.set_version(host, SERVICE_VERSION)
    return made


@pytest.fixture
async def network(world: World) -> Any:
    return await world.routed(rack1="10.1.0.0/29")


async def poll(world: World, agent: AgentIdentity) -> Polled:
    return await Polls(world.compute).poll(HOSTS, agent=agent, busy=[], wait_s=0)


async def told(world: World) -> AgentIdentity:
    """The agent, with the mark that it was told last."""
    return replace(NEW, mark=(await poll(world, NEW)).mark)


async def go_back(world: World) -> None:
    """As if a database had been restored in which the last report was not made yet."""
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.agent SET mark = mark - 1 WHERE id = $1", AGENT.id)


async def test_a_look_at_what_is_pending_reads_no_host_but_for_a_recovery(world: World) -> None:
    async with world.database.connection() as connection:
        await connection.execute(
            "INSERT INTO compute.host (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, service_version)"
            " SELECT 'many-' || n, gen_random_uuid(), 1, 1, 1, '{}', 5 FROM generate_series(1, 10000) AS n"
        )
        await connection.execute("ANALYZE compute.host")
        plan = await connection.fetch(f"EXPLAIN (ANALYZE) {PENDING_HOSTS}")
    (scan,) = [row[0] for row in plan if " on host h" in row[0]]
    assert "never executed" in scan


async def list_guests(world: World, agent: AgentIdentity, *listed: ListedGuest) -> list[Any]:
    return list(await guests.compare_guests(world.compute, GuestsBody(agent=agent, guests=listed, as_of=0.0)))


async def attempts(world: World, server_id: str) -> list[int]:
    async with world.database.connection() as connection:
        return [
            row[0]
            for row in await connection.fetch(
                "SELECT attempt FROM compute.guest WHERE server_id = $1 AND desired <> 'absent'", server_id
            )
        ]


async def test_nothing_is_launched_from_a_later_mark_on_until_all_hosts_have_listed(world: World, network: Any) -> None:
    before = await booted(world, network)
    agent = await told(world)
    assert agent.mark
    await go_back(world)
    (server_id,) = await world.boot(network.id)
    polled = await poll(world, agent)
    assert (polled.list_wanted, polled.orders) == (True, ())
    await world.conduct()
    assert await attempts(world, server_id) == []
    assert await service.look(world.compute) is not None
    present = ListedGuest(server_id=before.id, host=before.host, attempt=1, state="running")
    assert await list_guests(world, agent, present) == []
    assert await service.look(world.compute) is None
    await world.run()
    assert await world.statuses() == {before.id: "ACTIVE", server_id: "ACTIVE"}
    await world.settled()


async def test_a_mark_as_late_as_the_records_is_no_reason_to_wait(world: World, network: Any) -> None:
    await booted(world, network)
    await poll(world, await told(world))
    assert await service.find_recovery(world.compute) is None


async def test_the_audit_says_what_is_waited_for(world: World, network: Any) -> None:
    await booted(world, network)
    agent = await told(world)
    await go_back(world)
    await poll(world, agent)
    (drift,) = await audit.RECOVERY.run(world.compute, repairs=Repairs.NONE)
    assert drift.kind is WENT_BACK
    assert "waiting for h1, h2" in drift.says
    assert await service.tell_recovery(world.compute) == drift.says


async def test_the_same_mark_proves_it_once(world: World, network: Any) -> None:
    await booted(world, network)
    agent = await told(world)
    await go_back(world)
    await poll(world, agent)
    await service.end_recovery(world.compute)
    await poll(world, agent)
    assert await service.find_recovery(world.compute) is None


async def test_a_report_with_a_later_mark_begins_nothing_and_is_made_again(world: World, network: Any) -> None:
    await booted(world, network)
    agent = await told(world)
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    await go_back(world)
    (host,) = [order.host for order in (await poll(world, NEW)).orders]
    begun = GuestReport(server_id=server_id, host=host, attempt=1, state="begun")
    (answer,) = await report(world.compute, [begun], agent=agent)
    assert (answer.accepted, answer.refusal) == (False, Refusal.NO_LEASE)
    assert await service.find_recovery(world.compute) is not None
    await list_guests(world, agent)
    await service.look(world.compute)
    (answer,) = await report(world.compute, [begun], agent=agent)
    assert answer.refusal is Refusal.UNKNOWN  # a guest that no host had begun is asked for in the new epoch
    (attempt,) = await attempts(world, server_id)
    assert attempt > 1
    await world.run()
    assert set((await world.statuses()).values()) == {"ACTIVE"}
    await world.settled()


async def test_a_conductor_that_is_at_work_writes_nothing_more(world: World, network: Any) -> None:
    await booted(world, network)
    agent = await told(world)
    await go_back(world)
    (server_id,) = await world.boot(network.id)
    async with world.asleep(world.conductor.placement, "claim"):
        await poll(world, agent)
    assert await attempts(world, server_id) == []
    await list_guests(world, agent)
    await service.look(world.compute)
    await world.expire_leases()
    await world.run()
    assert (await world.statuses())[server_id] == "ACTIVE"
    await world.settled()


async def test_a_guest_that_was_superseded_before_is_left_alone_while_the_records_recover(
    world: World, network: Any
) -> None:
    server = await booted(world, network)
    agent = await told(world)
    await go_back(world)
    (other,) = set(HOSTS) - {server.host}
    older = ListedGuest(server_id=server.id, host=other, attempt=0, state="running")
    present = ListedGuest(server_id=server.id, host=server.host, attempt=1, state="running")
    assert await list_guests(world, agent, older, present) == []
    await service.look(world.compute)
    assert [guest.host for guest in await list_guests(world, agent, older, present)] == [other]


async def test_a_server_of_which_a_host_has_an_unknown_guest_is_made_nowhere(world: World, network: Any) -> None:
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = (await poll(world, NEW)).orders
    later = ListedGuest(server_id=server_id, host=order.host, attempt=order.attempt + 1, state="running")
    assert await list_guests(world, NEW, later) == []
    assert (await poll(world, NEW)).orders == ()
    assert (await list_launches(world.compute, [server_id]))[server_id].unknown_on == order.host
    await list_guests(world, NEW)
    assert (await poll(world, NEW)).orders == (order,)
    assert (await list_launches(world.compute, [server_id]))[server_id].unknown_on is None


@pytest.mark.parametrize("is_network_known", [True, False])
async def test_a_guest_is_not_up_where_one_that_nobody_knows_has_an_address_of_its_server(
    world: World, network: Any, *, is_network_known: bool
) -> None:
    """The records went back: its server had lost the address, and another one's guest has it."""
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = (await poll(world, NEW)).orders
    (port,) = order.ports
    (other_host,) = set(HOSTS) - {order.host}

    async def list_another(addresses: tuple[str, ...]) -> None:
        network_id = port.network_id if is_network_known else None
        nic = GuestNic(port_id=None, mac_address="52:54:00:00:00:01", addresses=addresses, network_id=network_id)
        guest = ListedGuest(server_id=ANOTHER, host=other_host, attempt=9, state="running", nics=(nic,))
        await list_guests(world, NEW, guest)

    await list_another(port.addresses)
    assert (await poll(world, NEW)).orders == ()
    assert (await list_launches(world.compute, [server_id]))[server_id].unknown_on == other_host
    await list_another(("10.254.0.1",))
    assert (await poll(world, NEW)).orders == (order,)
    assert (await list_launches(world.compute, [server_id]))[server_id].unknown_on is None


@pytest.mark.parametrize("source_is_gone", [False, True])
async def test_a_live_migration_goes_on_whose_destination_has_the_guest_already(
    world: World, network: Any, *, source_is_gone: bool
) -> None:
    """The dump had it copying; since then its memory had been handed over. Its source is not to run beside it."""
    before = await booted(world, network)
    await world.move(before.id, MoveKind.LIVE)
    await world.conduct()
    await world.serve_hosts()  # the destination awaits the memory
    async with world.database.connection() as connection:
        await connection.execute(
            "UPDATE compute.guest SET reported = NULL WHERE host = $1", before.host
        )  # it is to send it
    source = ListedGuest(server_id=before.id, host=before.host, attempt=1, state="stopped", sequence=8)
    (other_host,) = set(HOSTS) - {before.host}
    dest = ListedGuest(server_id=before.id, host=other_host, attempt=2, state="running", sequence=9)
    assert await list_guests(world, NEW, *([] if source_is_gone else [source]), dest) == []
    assert [
        (order.host, order.desired) for order in (await poll(world, NEW)).orders if order.desired == "running"
    ] == []
    await world.run()
    after = await server_service.get_server(world.compute, before.id)
    assert (after.status, after.host, world.running) == ("ACTIVE", other_host, {(before.id, other_host)})
    await world.settled()


async def test_a_guest_of_a_later_attempt_is_not_gone_with_an_earlier_one(world: World, network: Any) -> None:
    """The dump had its server leave the host; since then it had come back there."""
    server = await booted(world, network)
    (other_host,) = set(HOSTS) - {server.host}
    async with world.database.connection() as connection:
        await connection.execute(
            "INSERT INTO compute.guest (server_id, host, attempt, desired, begun_at)"
            " VALUES ($1, $2, 1, 'absent', now())",
            server.id,
            other_host,
        )
    present = ListedGuest(server_id=server.id, host=server.host, attempt=1, state="running")
    await list_guests(world, NEW, present, replace(present, host=other_host, attempt=7, state="incoming"))
    for is_ordered in (False, True):
        (guest,), _, _ = await unknown_service.list_unknown_guests(world.compute)
        assert (guest.host, guest.destroying) == (other_host, is_ordered)
        await unknown_service.destroy_unknown_guest(world.compute, server.id, other_host)
    (order,) = (await poll(world, NEW)).orders
    assert (order.host, order.attempt, order.desired) == (other_host, 7, "absent")


async def become_another(world: World) -> None:
    """As if a standby had been promoted, or a dump restored into a new database."""
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.database_seen SET fingerprint = 'another'")


async def test_in_another_database_nothing_is_launched_until_hosts_have_listed(world: World, network: Any) -> None:
    before = await booted(world, network)
    (server_id,) = await world.boot(network.id)
    await become_another(world)
    assert await service.is_under_way(world.compute)
    assert await service.tell_recovery(world.compute) == ANOTHER_DATABASE
    await world.conduct()
    assert await attempts(world, server_id) == []
    recovery = await service.look(world.compute)
    assert recovery is not None
    assert (recovery.mark_told, recovery.missing) == (None, len(HOSTS))
    await world.conduct()
    assert await attempts(world, server_id) == []
    present = ListedGuest(server_id=before.id, host=before.host, attempt=1, state="running")
    await list_guests(world, NEW, present)
    assert await service.look(world.compute) is None
    await world.run()
    assert (await world.statuses())[server_id] == "ACTIVE"


async def test_in_another_database_an_older_agent_is_not_waited_for_unless_a_mark_proves_it(
    world: World, network: Any
) -> None:
    await booted(world, network)
    agent = await told(world)
    for host in HOSTS:
        await world.set_version(host, 4)
    await become_another(world)
    assert await service.look(world.compute) is None
    await become_another(world)
    await go_back(world)
    await poll(world, replace(agent, service_version=4))
    recovery = await service.look(world.compute)
    assert recovery is not None
    assert (recovery.agent_label, recovery.missing) == (AGENT.label, len(HOSTS))


async def test_an_unknown_guest_on_a_host_that_is_forced_down_is_in_nobodys_way(world: World, network: Any) -> None:
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = (await poll(world, NEW)).orders
    (other,) = set(HOSTS) - {order.host}
    await list_guests(world, NEW, ListedGuest(server_id=server_id, host=other, attempt=9, state="running"))
    assert (await poll(world, NEW)).orders == ()
    await host_service.force_down(world.compute, other, True)
    assert (await poll(world, NEW)).orders == (order,)


async def test_in_another_database_no_launch_begins_that_was_ordered_before(world: World, network: Any) -> None:
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = (await poll(world, NEW)).orders
    await become_another(world)
    begun = GuestReport(server_id=server_id, host=order.host, attempt=order.attempt, state="begun")
    (answer,) = await report(world.compute, [begun], agent=NEW)
    assert (answer.accepted, answer.refusal) == (False, Refusal.NO_LEASE)


async def test_an_unknown_guest_stays_unknown_where_its_server_is_asked_for_anew(world: World, network: Any) -> None:
    for host in HOSTS[1:]:
        await host_service.force_down(world.compute, host, True)
    (server_id,) = await world.boot(network.id)
    before = ListedGuest(server_id=server_id, host=HOSTS[0], attempt=1, state="running")
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.work SET attempt = 7")
    assert await list_guests(world, NEW, before) == []
    await world.conduct()
    (attempt,) = await attempts(world, server_id)
    assert attempt > before.attempt
    assert await list_guests(world, NEW, before) == []
    assert (await poll(world, NEW)).orders == ()  # it would be destroyed for the one that is asked for


async def test_what_was_launched_and_rebooted_after_the_records_went_back_is_no_attempt_of_those_that_go_back_again(
    world: World, network: Any
) -> None:
    for host in HOSTS[1:]:
        await host_service.force_down(world.compute, host, True)
    await become_another(world)
    await service.look(world.compute)
    await service.end_recovery(world.compute)
    async with world.database.connection() as connection:  # the clock of that database was ahead
        ahead = await connection.fetchval("UPDATE compute.recovery SET epoch = epoch + 3600 RETURNING epoch")
    (server_id,) = await world.boot(network.id)
    rebooted = ListedGuest(server_id=server_id, host=HOSTS[0], attempt=ahead + 2, state="running")
    await become_another(world)
    await service.look(world.compute)
    await list_guests(world, NEW, rebooted)
    assert await service.look(world.compute) is None
    await world.conduct()
    (attempt,) = await attempts(world, server_id)
    assert attempt > rebooted.attempt
    assert await list_guests(world, NEW, rebooted) == []
    assert (await list_launches(world.compute, [server_id]))[server_id].unknown_on == HOSTS[0]


async def test_a_launch_that_the_records_have_forgotten_has_begun_where_its_guest_is_listed(
    world: World, network: Any
) -> None:
    (server_id,) = await world.boot(network.id)
    await world.conduct()
    (order,) = (await poll(world, NEW)).orders
    await become_another(world)
    await service.look(world.compute)
    present = ListedGuest(server_id=server_id, host=order.host, attempt=order.attempt, state="running")
    assert await list_guests(world, NEW, present) == []
    assert await service.look(world.compute) is None
    async with world.database.connection() as connection:
        await connection.execute("UPDATE compute.guest SET created_at = created_at - interval '1 hour'")
        await connection.execute("UPDATE compute.work SET run_at = now()")
    await world.conduct()
    assert await attempts(world, server_id) == [order.attempt]
    assert [one.attempt for one in (await poll(world, NEW)).orders] == [order.attempt], "its state is asked for"
