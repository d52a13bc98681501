"""Who comes too late with an address: a client whose intent is gone, a build that was overtaken, an old release."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT, Cloud, assert_sound, execute
from tests.next_call import after, before, instead

from roost.network.errors import IpAddressGenerationFailure, PortChanged, SubnetInUse
from roost.network.model.ports import FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.service import builds, ports, releases, subnets
from roost.network.service.reconciler import Reconciled, reconcile_once
from roost.platform.errors import TransactionVictim
from roost.seams.network import BindRefused, EnsuredPorts, Nic, PortBind, PortsRefused
from roost.seams.placement import IPV4_ADDRESS, Claimed, ClaimGroup, ConsumerClaim

NOBODY = "55555555-5555-4555-8555-555555555555"
OPEN_INTENT = "INSERT INTO network.intent VALUES ($1, now() + interval '60 s')"
EXPIRE_INTENTS = "UPDATE network.intent SET expires_at = now() - interval '1 s'"


@pytest.mark.parametrize("bind", [False, True])
async def test_a_client_that_took_longer_than_its_intent_gets_no_address(cloud: Cloud, bind: bool) -> None:
    """Its claim was given back meanwhile: an address without one would be given twice."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    wanted = PortRequest(network_id=network.id, project_id=PROJECT)
    port = await ports.create_port(cloud.networks, wanted)

    async def reconciled() -> None:
        await execute(cloud, EXPIRE_INTENTS)
        await reconcile_once(cloud.networks)

    after(cloud.networks.placement, "claim", reconciled)
    if bind:
        late = ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    else:
        late = ports.create_port(cloud.networks, msgspec.structs.replace(wanted, host="h1"))
    with pytest.raises(PortChanged):
        await late
    assert await ports.list_ports(cloud.networks, PortFilter(network_ids=(network.id,))) == [port]
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


async def test_a_client_that_took_longer_than_its_intent_does_not_take_the_next_ones(cloud: Cloud) -> None:
    """The port's claim is on the segment that the next one wants: an address elsewhere would be without."""
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    claimed, refused = asyncio.Event(), asyncio.Event()
    nexts: list[asyncio.Task[Any]] = []

    async def wait() -> None:
        claimed.set()
        await refused.wait()

    async def overtaken() -> None:
        await execute(cloud, EXPIRE_INTENTS)
        await reconcile_once(cloud.networks)
        after(cloud.networks.placement, "claim", wait)
        nexts.append(asyncio.create_task(ports.update_port(cloud.networks, port.id, PortChanges(host="h2"))))
        await claimed.wait()

    after(cloud.networks.placement, "claim", overtaken)
    with pytest.raises(PortChanged, match="took too long"):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    refused.set()
    await asyncio.gather(*nexts)
    assert [item.address for item in (await ports.get_port(cloud.networks, port.id)).addresses] == ["10.2.0.2"]
    assert (await cloud.used(rack1.id), await cloud.used(rack2.id)) == ((5, 0), (5, 1))
    await assert_books_agree(cloud.networks.database)


@pytest.mark.parametrize("sleeps", ["list_usages", "get_consumers"])
async def test_a_client_that_slept_over_its_intent_claims_over_nobody(cloud: Cloud, sleeps: str) -> None:
    """The next one has the port's address by then, and a claim made late would be instead of that address's."""
    network, (rack1, rack2) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    await cloud.client.set_hosts({"h1": ["rack1", "rack2"]})  # uses are asked for where there is a choice
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))

    async def overtaken() -> None:
        await execute(cloud, EXPIRE_INTENTS)
        await reconcile_once(cloud.networks)
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h2"))

    after(cloud.networks.placement, sleeps, overtaken)
    with pytest.raises(PortChanged):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    assert [item.address for item in (await ports.get_port(cloud.networks, port.id)).addresses] == ["10.2.0.2"]
    assert (await cloud.used(rack1.id), await cloud.used(rack2.id)) == ((5, 0), (5, 1))
    await assert_books_agree(cloud.networks.database)


@pytest.mark.parametrize("named", [False, True])
async def test_a_port_whose_subnet_goes_before_it_is_claimed_for_is_refused(cloud: Cloud, named: bool) -> None:
    network = await cloud.plain("10.1.0.0/29")
    (subnet,) = await subnets.list_subnets(cloud.networks)

    async def deleted() -> None:
        await subnets.delete_subnet(cloud.networks, subnet.id)

    before(cloud.networks.placement, "claim", deleted)
    fixed_ips = (FixedIpRequest(subnet_id=subnet.id),) if named else None
    with pytest.raises(IpAddressGenerationFailure, match="deleted just now"):
        await ports.create_port(
            cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=fixed_ips)
        )
    assert await ports.list_ports(cloud.networks, PortFilter()) == []
    await assert_sound(cloud)


async def test_a_server_whose_port_is_deleted_right_after_it_got_its_named_address_is_refused(cloud: Cloud) -> None:
    """The other servers of its set are answered as if it were not there."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    nic = Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4")
    server, other = cloud.server(nic), cloud.server(Nic(tag="0", network_id=network.id))

    async def deleted() -> None:
        await ports.delete_port(cloud.networks, nic.port_id_of(server.server_id))

    after(builds, "assign_address", deleted)
    refused, ensured = await cloud.client.ensure_ports([server, other])
    assert isinstance(refused, PortsRefused)
    assert refused.reason.endswith("was deleted while the server was being built.")
    assert isinstance(ensured, EnsuredPorts)
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


@pytest.mark.parametrize("named", [False, True], ids=["a client's", "a server's"])
async def test_who_the_ledger_fails_can_ask_for_the_port_again_at_once(cloud: Cloud, named: bool) -> None:
    """Not only when its intent has expired: that is for who does not live to close it."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    server = cloud.server(Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4"))

    async def ask() -> None:
        if named:
            await cloud.ensure(server)
        else:
            await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))

    async def fails(_real: Any, *_arguments: Any) -> None:
        raise TransactionVictim

    instead(cloud.networks.placement, "claim", fails)
    with pytest.raises(TransactionVictim):
        await ask()
    await ask()
    assert await cloud.used(rack1.id) == (5, 1)
    await assert_sound(cloud)


async def test_of_two_that_would_claim_for_one_port_the_second_is_told_to_wait(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    await execute(cloud, OPEN_INTENT, port.id)
    with pytest.raises(PortChanged):
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))
    assert await cloud.used(rack1.id) == (5, 0)


@pytest.mark.parametrize(
    ("host", "change", "reason"),
    [
        ("h2", {}, "does not reach"),
        ("h1", {"revision": 7}, "changed meanwhile"),
        ("h1", {"server_id": "77777777-7777-4777-8777-777777777777"}, "does not belong"),
    ],
)
async def test_a_bind_that_was_overtaken_or_goes_astray_is_refused(
    cloud: Cloud, host: str, change: Any, reason: str
) -> None:
    network, (rack1, _) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    asked = {"server_id": server.server_id, "revision": port.revision, **change}
    (answer,) = await cloud.client.bind_ports([PortBind(port_id=port.id, host=host, provider_uuid=rack1.id, **asked)])
    assert isinstance(answer, BindRefused)
    assert reason in answer.reason
    assert (await ports.get_port(cloud.networks, port.id)).addresses == ()
    (port,) = await cloud.ensure(server)
    await cloud.bind(server, port, "h1", rack1.id)


async def test_a_conductor_that_still_believes_in_a_refused_place_cannot_bind_there(cloud: Cloud) -> None:
    network, (rack1, _) = await cloud.routed("10.1.0.0/29", "10.2.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    asked = {"port_id": port.id, "server_id": server.server_id, "provider_uuid": rack1.id, "revision": port.revision}
    for host in ("h2", "h1"):  # refused for the first; the host is in reach again for the one who slept
        (answer,) = await cloud.client.bind_ports([PortBind(host=host, **asked)])
        assert isinstance(answer, BindRefused)
    assert "changed meanwhile" in answer.reason


async def test_a_users_own_address_is_no_builds_to_unassign(cloud: Cloud) -> None:
    network, _ = await cloud.routed("10.1.0.0/29")
    mine = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, host="h1", name="mine")
    )
    (port,) = await cloud.ensure(cloud.server(Nic(tag="0", port_id=mine.id)))
    await cloud.client.unassign_ports({port.id: port.revision})
    assert (await ports.get_port(cloud.networks, mine.id)).addresses == mine.addresses


async def test_an_old_release_takes_nothing_from_a_port_that_is_in_use_again(cloud: Cloud) -> None:
    """Roost's own ports come back under the same id; so a release row may name one that a build has claimed for."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await cloud.claim([port.id], rack1.id)
    await execute(cloud, "INSERT INTO network.release (port_id) VALUES ($1)", port.id)
    await reconcile_once(cloud.networks)
    assert await cloud.used(rack1.id) == (5, 1)
    await cloud.bind(server, port, "h1", rack1.id)
    assert await reconcile_once(cloud.networks) == Reconciled()
    await assert_sound(cloud)


async def test_a_release_gives_back_only_the_claim_that_it_saw(cloud: Cloud) -> None:
    _, (rack1,) = await cloud.routed("10.1.0.0/29")
    port_id = "66666666-6666-4666-8666-666666666666"
    assert await cloud.claim([port_id], rack1.id)
    await execute(cloud, OPEN_INTENT, port_id)
    await execute(cloud, "INSERT INTO network.release (port_id) VALUES ($1)", port_id)

    async def claimed_anew() -> None:
        claim = ConsumerClaim(
            consumer_uuid=port_id, generation=1, consumer_type="PORT", project_id=PROJECT, user_id=PROJECT,
            allocations={rack1.id: {IPV4_ADDRESS: 1}},
        )  # fmt: skip
        assert await cloud.networks.placement.claim([ClaimGroup((claim,))]) == [Claimed({port_id: 2})]

    after(cloud.networks.placement, "get_consumers", claimed_anew)
    await releases.work_off(cloud.networks)
    assert await cloud.used(rack1.id) == (5, 1)


async def test_a_port_whose_claim_is_on_its_way_back_is_reserved_after_that(cloud: Cloud) -> None:
    """Else the build could claim for it first, and lose that claim to the release."""
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    mine = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    assert await cloud.claim([mine.id], rack1.id)
    await execute(cloud, "INSERT INTO network.release (port_id) VALUES ($1)", mine.id)
    (port,) = await cloud.ensure(cloud.server(Nic(tag="0", port_id=mine.id)))
    assert port.needs_address
    assert await cloud.used(rack1.id) == (5, 0)


async def test_a_port_whose_claim_is_on_its_way_back_is_changed_after_that(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    port = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    assert await cloud.claim([port.id], rack1.id)
    await execute(cloud, "INSERT INTO network.release (port_id) VALUES ($1)", port.id)
    assert (await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))).addresses
    await assert_sound(cloud)


async def test_a_claim_that_gets_its_address_while_the_reconciler_looks_is_left_alone(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    port = await ports.create_port(
        cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT, device_id=NOBODY)
    )
    assert await cloud.claim([port.id], rack1.id)

    async def bound() -> None:
        await ports.update_port(cloud.networks, port.id, PortChanges(host="h1"))

    after(cloud.compute, "get_server_states", bound)
    assert await reconcile_once(cloud.networks) == Reconciled()
    assert (await ports.get_port(cloud.networks, port.id)).addresses
    assert await cloud.used(rack1.id) == (5, 1)
    await assert_sound(cloud)


async def test_two_nics_of_one_server_may_take_two_addresses_of_one_segment_at_once(cloud: Cloud) -> None:
    _, (rack1,) = await cloud.routed("10.1.0.0/29")
    async with cloud.networks.database.connection() as connection:
        rows = await connection.fetch("SELECT total, reserved, max_unit FROM placement.inventory")
    assert [tuple(row) for row in rows] == [(5, 0, 5)]
    assert await cloud.used(rack1.id) == (5, 0)


async def test_a_port_that_is_deleted_while_its_named_address_is_claimed_gets_none(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    nic = Nic(tag="0", network_id=network.id, fixed_ip="10.1.0.4")
    server = cloud.server(nic)

    async def deleted() -> None:
        await ports.delete_port(cloud.networks, nic.port_id_of(server.server_id))

    after(cloud.networks.placement, "claim", deleted)
    with pytest.raises(PortChanged):
        await cloud.client.ensure_ports([server])
    assert await ports.list_ports(cloud.networks, PortFilter()) == []
    assert await cloud.used(rack1.id) == (5, 0)
    await assert_sound(cloud)


@pytest.mark.parametrize("existing", [False, True])
async def test_a_port_that_another_server_got_since_it_was_looked_at_stays_reserved(
    cloud: Cloud, existing: bool
) -> None:
    """Its server before is gone, or is done with it; the other's build goes on, with all its ports."""
    network, _ = await cloud.routed("10.1.0.0/29")
    mine = await ports.create_port(cloud.networks, PortRequest(network_id=network.id, project_id=PROJECT))
    before = cloud.server(Nic(tag="0", port_id=mine.id))
    await cloud.ensure(before)
    cloud.compute.unfinished.clear()
    if existing:
        cloud.compute.existing.add(before.server_id)
    found = []

    async def another() -> None:
        await cloud.client.release_ports([before], restore=True)
        server = cloud.server(Nic(tag="0", port_id=mine.id), Nic(tag="1", network_id=network.id))
        found.extend(await cloud.ensure(server))

    after(cloud.compute, "get_server_states", another)
    assert await reconcile_once(cloud.networks) == Reconciled()
    building = await ports.list_ports(cloud.networks, PortFilter(ids=tuple(port.id for port in found)))
    assert len(building) == 2
    assert all(port.reserved_from is not None for port in building)
    await assert_sound(cloud)


async def test_a_subnet_whose_delete_somebody_else_has_taken_back_is_not_said_to_be_deleted(cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    (port,) = await cloud.ensure(cloud.server(Nic(tag="0", network_id=network.id)))
    assert await cloud.claim([port.id], rack1.id)
    (subnet,) = await subnets.list_subnets(cloud.networks)

    async def taken_back() -> None:
        await reconcile_once(cloud.networks)

    after(cloud.networks.placement, "list_usages", taken_back)
    with pytest.raises(SubnetInUse):
        await subnets.delete_subnet(cloud.networks, subnet.id)
    assert await subnets.get_subnet(cloud.networks, subnet.id)
    await assert_sound(cloud)
