"""Unknown guests become servers', in one claim group; a refusal says why, and changes nothing."""

from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.conductor.world import KilledHere, World
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT

from roost.cli.serving.crash_points import CRASH_POINTS
from roost.compute.errors import GuestNotAdopted, GuestNotFound
from roost.compute.service import adoptions as compute_adoptions
from roost.compute.service.adoptions import adopt_guest
from roost.compute.service.audit import AUDIT
from roost.compute.service.guests import compare_guests
from roost.compute.service.unknown_guests import hold_round, list_unknown_guests
from roost.network.model.networks import Network
from roost.network.model.ports import PortRequest
from roost.network.service import adoptions as network_adoptions
from roost.network.service import audit as network_audit
from roost.network.service import ports
from roost.network.service.reconciler import reconcile_once
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import RoostError
from roost.seams.agent import GuestNic, GuestsBody, ListedGuest
from roost.seams.network import Nic

UNKNOWN = "11111111-1111-1111-1111-111111111111"
OLD_PORT = "22222222-2222-2222-2222-222222222222"


@pytest.fixture
async def world(database: Database) -> World:
    world = await World.make(database)
    await world.hosts("h1", reach=["rack1"], vcpus=2)
    return world


def listed(network: Network, *addresses: str, host: str = "h1", attempt: int = 3, **more: Any) -> ListedGuest:
    nic = GuestNic(
        mac_address="fa:16:3e:00:01:01",
        addresses=addresses,
        network_id=network.id,
        port_id=more.pop("port_id", OLD_PORT),
    )
    fields: dict[str, Any] = {
        "server_id": UNKNOWN, "state": "running", "name": "web", "project_id": PROJECT, "vcpus": 1, "ram_mb": 512,
        "disk_gb": 1, "nics": (nic,) if addresses else (), **more,
    }  # fmt: skip
    return ListedGuest(host=host, attempt=attempt, **fields)


async def send(world: World, *guests: ListedGuest) -> None:
    await compare_guests(world.compute, GuestsBody(agent=AGENT, guests=guests, as_of=0.0))


async def copy_of_all(world: World) -> dict[str, list[str]]:
    """Every row that an adoption may change."""
    tables = ("compute.server", "compute.guest", "compute.unknown_guest", "network.port", "network.address")
    async with world.database.connection() as connection:
        rows = {
            table: [str(row["it"]) for row in await connection.fetch(f"SELECT to_jsonb(t) AS it FROM {table} t")]
            for table in tables
        }
        rows["claims"] = [
            str(tuple(row))
            for row in await connection.fetch("SELECT provider_id, consumer_uuid, used FROM placement.allocation")
        ]
    return {table: sorted(found) for table, found in rows.items()}


async def refuse(world: World, said: str, server_id: str = UNKNOWN, host: str = "h1") -> None:
    before = await copy_of_all(world)
    with pytest.raises(GuestNotAdopted, match=said):
        await adopt_guest(world.compute, server_id, host)
    assert await copy_of_all(world) == before


async def assert_whole(world: World) -> None:
    await hold_round(world.compute)
    await reconcile_once(world.networks)
    assert await AUDIT.run(world.compute, repairs=Repairs.NONE) == []
    assert await network_audit.AUDIT.run(world.networks, repairs=Repairs.NONE) == []
    await assert_books_agree(world.database)


async def test_a_guest_of_an_unknown_id_becomes_a_server_with_its_old_port_and_address(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await send(world, listed(network, "10.1.0.4"))
    await adopt_guest(world.compute, UNKNOWN, "h1")
    assert (await world.statuses())[UNKNOWN] == "ACTIVE"
    (port,) = (await world.compute.network.list_attached_ports([UNKNOWN]))[UNKNOWN]
    assert (port.id, port.addresses, port.host, port.mac_address) == (
        OLD_PORT,
        ("10.1.0.4",),
        "h1",
        "fa:16:3e:00:01:01",
    )
    assert port.preserve_on_delete
    assert await world.compute.network.list_holding_hosts() == set()
    await assert_whole(world)
    await send(world, listed(network, "10.1.0.4"))
    assert (await list_unknown_guests(world.compute))[0] == []
    world.guests[UNKNOWN, "h1"] = 3
    await world.delete(UNKNOWN)
    await world.run()
    assert UNKNOWN not in await world.statuses()


async def test_a_port_that_roost_had_made_goes_with_the_server(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    made = Nic(tag="0", network_id=network.id).port_id_of(UNKNOWN)
    await send(world, listed(network, "10.1.0.4", port_id=made, state="stopped"))
    await adopt_guest(world.compute, UNKNOWN, "h1")
    (port,) = (await world.compute.network.list_attached_ports([UNKNOWN]))[UNKNOWN]
    assert (port.id, port.preserve_on_delete) == (made, False)
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT power FROM compute.server") == "stopped"
    await assert_whole(world)


async def test_it_is_adopted_though_its_address_was_the_last(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    await send(world, listed(network, "10.1.0.2"))
    await adopt_guest(world.compute, UNKNOWN, "h1")
    await assert_whole(world)


async def test_a_guest_on_a_flat_network_is_adopted_with_its_hidden_port(world: World) -> None:
    network = await world.cloud.flat(cell1="10.0.0.0/29")
    await send(world, listed(network, "10.0.0.2", port_id=None))
    await adopt_guest(world.compute, UNKNOWN, "h1")
    (port,) = (await world.compute.network.list_attached_ports([UNKNOWN]))[UNKNOWN]
    assert (port.id, port.tag, port.addresses) == (None, "0", ("10.0.0.2",))
    await assert_whole(world)


async def test_a_known_server_whose_guest_is_lost_takes_the_attempt_and_the_host_of_the_guest(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    await world.hosts("h2", reach=["rack1"])
    (port,) = (await world.compute.network.list_attached_ports([server_id]))[server_id]
    guest = listed(
        network, *port.addresses, host="h2", attempt=5, server_id=server_id, port_id=port.id,
    )  # fmt: skip
    guest = replace(guest, nics=(replace(guest.nics[0], mac_address=port.mac_address),))
    here = listed(network, server_id=server_id, attempt=1)
    await world.hear("h1", "h2")
    await send(world, here, guest)
    await refuse(world, "its server runs on h1: delete the server, or destroy one of the two", server_id, "h2")
    await compare_guests(world.compute, GuestsBody(agent=AGENT, guests=(guest,), as_of=2e9))
    assert (await world.statuses())[server_id] == "ERROR"
    await adopt_guest(world.compute, server_id, "h2")
    async with world.database.connection() as connection:
        row = await connection.fetchrow("SELECT status, host FROM compute.server")
        assert tuple(row) == ("ACTIVE", "h2")
        assert await connection.fetchval("SELECT array_agg(host || attempt) FROM compute.guest") == ["h25"]
    await assert_whole(world)


async def test_a_known_server_takes_a_higher_attempt_on_its_own_host(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    (port,) = (await world.compute.network.list_attached_ports([server_id]))[server_id]
    guest = listed(network, *port.addresses, attempt=7, server_id=server_id, port_id=port.id)
    await send(world, guest)
    await adopt_guest(world.compute, server_id, "h1")
    async with world.database.connection() as connection:
        assert await connection.fetchval("SELECT attempt FROM compute.guest") == 7
    await assert_whole(world)


@pytest.mark.parametrize("state", ["running", "stopped"])
async def test_a_shelved_server_is_what_its_guest_is_that_is_adopted(world: World, state: str) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    (server_id,) = await world.boot(network.id)
    await world.run()
    async with world.database.transaction() as tx:
        await tx.execute("UPDATE compute.server SET power = 'stopped', shelved = true")
    (port,) = (await world.compute.network.list_attached_ports([server_id]))[server_id]
    await send(world, listed(network, *port.addresses, attempt=7, server_id=server_id, port_id=port.id, state=state))
    await adopt_guest(world.compute, server_id, "h1")
    async with world.database.connection() as connection:
        row = await connection.fetchrow("SELECT power, shelved FROM compute.server")
    assert tuple(row) == (state, state == "stopped")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"state": "incoming"}, "it is incoming"),
        ({"name": ""}, "says no name, project or size"),
        ({"vcpus": 2}, "no flavor is of exactly its size, 2 VCPUs, 512 MB and 1 GB: create one"),
        (
            {"nics": (GuestNic(mac_address="fa:16:3e:00:01:01", addresses=("10.1.0.4",)),)},
            "which networks its NICs are",
        ),
    ],
)
async def test_what_cannot_be_adopted_says_why_and_nothing_changes(
    world: World, more: dict[str, Any], said: str
) -> None:
    network = await world.routed(rack1="10.1.0.0/29")
    await send(world, listed(network, "10.1.0.4", **more))
    await refuse(world, said)


async def test_a_guest_for_which_the_host_has_no_room_is_not_adopted(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    await world.boot(network.id, count=2)
    await world.run()
    await send(world, listed(network, "10.1.0.9"))
    await reconcile_once(world.networks)
    await refuse(world, "the ledger refuses the claim: 1 VCPU of .*, of which 0 are free")
    await hold_round(world.compute)
    assert await world.compute.network.list_holding_hosts() == {"h1"}


async def test_a_guest_whose_address_another_has_is_not_adopted(world: World) -> None:
    network = await world.routed(rack1="10.1.0.0/28")
    port = await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1"))
    await send(world, listed(network, port.addresses[0].address))
    await refuse(world, f"not held for it: 10.1.0.2 .port {port.id} on host h1")
    await send(world, listed(network, "10.1.0.9", port_id=port.id))
    await refuse(world, f"there is another port {port.id}")


@pytest.mark.parametrize("point", [name for name in CRASH_POINTS if name.startswith("adopt.")])
async def test_an_adoption_that_is_cut_off_leaves_what_is_legal_and_is_repeated(world: World, point: str) -> None:
    network = await world.routed(rack1="10.1.0.0/30")
    await send(world, listed(network, "10.1.0.2"))

    def die(name: str) -> None:
        if name == point:
            raise KilledHere

    with (
        patch.object(compute_adoptions, "crash_point", die),
        patch.object(network_adoptions, "crash_point", die),
        pytest.raises(KilledHere),
    ):
        await adopt_guest(world.compute, UNKNOWN, "h1")
    await assert_books_agree(world.database, settled=False)
    for _ in range(2):
        await hold_round(world.compute)
        await reconcile_once(world.networks)
        await AUDIT.run(world.compute, repairs=Repairs.ITSELF)
        await network_audit.AUDIT.run(world.networks, repairs=Repairs.ITSELF)
        await assert_books_agree(world.database, settled=False)
    with pytest.raises(RoostError):  # nobody else was given it
        await ports.create_port(world.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1"))
    await adopt_guest(world.compute, UNKNOWN, "h1")
    assert (await world.statuses())[UNKNOWN] == "ACTIVE"
    await assert_whole(world)


async def test_only_what_is_listed_and_described_is_adopted(world: World) -> None:
    with pytest.raises(GuestNotFound):
        await adopt_guest(world.compute, UNKNOWN, "h1")
