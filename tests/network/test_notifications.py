"""What consumers are told of ports, as Neutron's notifier tells it."""

import msgspec
import pytest
from msgspec.structs import replace
from tests.network.cloud import NEVER, PROJECT, Cloud

from roost.network.errors import IpAddressAlreadyAllocated
from roost.network.model.networks import Network
from roost.network.model.ports import Address, FixedIpRequest, Port, PortChanges, PortRequest
from roost.network.rules import documents
from roost.network.rules.notifications import port_events
from roost.network.service import Networks, ports
from roost.platform.outbox import Notification, Outbox
from roost.seams.network import Nic

PORT = Port(
    id="1a33a0a8-0f4a-4c88-8a7c-7f0ef0ae6a5e", network_id="6f70656e-0000-4000-8000-000000000001", project_id=PROJECT,
    name="", description="", mac_address="fa:16:3e:00:00:01", admin_state_up=True, device_id="", device_owner="",
    ip_allocation="immediate", host=None, vnic_type="normal", binding_profile="{}", vif_type="unbound", made_for=None,
    reserved_from=None, revision=1, created_at=NEVER, updated_at=NEVER,
)  # fmt: skip
BOUND = replace(PORT, host="h1", vif_type="ovs", revision=2)
HIDDEN = replace(PORT, nic_tag="0")
CREATED, UPDATED, DELETED = (
    [f"port.{event}.{phase}" for phase in ("start", "end")] for event in ("create", "update", "delete")
)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, None, []),
        (None, PORT, CREATED),
        (PORT, BOUND, UPDATED),
        (PORT, None, DELETED),
        (PORT, PORT, []),
        (PORT, replace(PORT, revision=2), []),
        (PORT, replace(PORT, made_for="a"), []),
        (None, HIDDEN, []),
        (HIDDEN, None, []),
    ],
)
def test_what_tells_of_a_change_of_a_port(before: Port | None, after: Port | None, told: list[str]) -> None:
    assert [event_type for event_type, _ in port_events(before, after)] == told


def test_the_payloads_are_those_of_neutrons_notifier() -> None:
    (_, asked), (_, made) = port_events(None, PORT)
    assert "id" not in asked["port"]
    assert asked["port"].items() <= made["port"].items()
    (_, changes), (_, changed) = port_events(PORT, BOUND)
    assert changes == {"port": {"binding:host_id": "h1"}, "id": PORT.id}
    assert (changed["port"]["status"], changed["port"]["binding:host_id"]) == ("ACTIVE", "h1")
    assert [payload for _, payload in port_events(PORT, None)] == [
        {"port_id": PORT.id},
        {"port": msgspec.to_builtins(documents.port(PORT)), "port_id": PORT.id},
    ]


def test_a_port_is_told_of_as_the_api_shows_it() -> None:
    address = Address(
        subnet_id="6f70656e-0000-4000-8000-000000000002", address="10.0.0.9", port_id=PORT.id, in_pool=True,
        provider_uuid="6f70656e-0000-4000-8000-000000000001", assigned_for=None, claimed=True,
    )  # fmt: skip
    for port in (PORT, BOUND, replace(PORT, addresses=(address,), tags=("red",))):
        _, (_, payload) = port_events(None, port)
        assert msgspec.json.encode(payload["port"]) == msgspec.json.encode(documents.port(port))


async def take(networks: Networks) -> list[Notification]:
    """What was written since the last time."""
    async with networks.database.connection() as connection:
        rows = await connection.fetch("SELECT notification FROM network.outbox ORDER BY id")
        await connection.execute("DELETE FROM network.outbox")
    return [msgspec.json.decode(row["notification"], type=Notification) for row in rows]


async def told(networks: Networks) -> list[str]:
    return [one.event_type for one in await take(networks)]


@pytest.fixture
async def network(networks: Networks, cloud: Cloud) -> Network:
    made = await cloud.plain("10.0.0.0/28")
    networks.outbox = Outbox("network", host="here", destinations=("log_file",))
    return made


async def test_a_clients_port_is_told_of(networks: Networks, network: Network) -> None:
    port = await ports.create_port(networks, PortRequest(network_id=network.id, project_id=PROJECT))
    start, end = await take(networks)
    assert ([start.event_type, end.event_type], start.publisher_id) == (CREATED, "network.here")
    assert end.payload["port"]["fixed_ips"] == [
        {"subnet_id": item.subnet_id, "ip_address": item.address} for item in port.addresses
    ]
    await ports.update_port(networks, port.id, PortChanges(name="web"))
    start, end = await take(networks)
    assert (start.payload, end.payload["port"]["name"]) == ({"port": {"name": "web"}, "id": port.id}, "web")
    await ports.delete_port(networks, port.id)
    assert await told(networks) == DELETED


async def test_what_is_refused_is_not_told(networks: Networks, network: Network) -> None:
    asked = PortRequest(
        network_id=network.id, project_id=PROJECT, fixed_ips=(FixedIpRequest(ip_address="10.0.0.5"),)
    )  # fmt: skip
    await ports.create_port(networks, asked)
    await take(networks)
    with pytest.raises(IpAddressAlreadyAllocated):
        await ports.create_port(networks, asked)
    assert await told(networks) == []


async def test_the_ports_of_a_servers_build_are_told_of(networks: Networks, cloud: Cloud) -> None:
    network, (rack1,) = await cloud.routed("10.1.0.0/29")
    networks.outbox = Outbox("network", host="here", destinations=("log_file",))
    server = cloud.server(Nic(tag="0", network_id=network.id))
    (port,) = await cloud.ensure(server)
    assert await told(networks) == CREATED
    assert await cloud.claim([port.id], rack1.id)
    await cloud.bind(server, port, "h1", rack1.id)
    start, end = await take(networks)
    assert [start.event_type, end.event_type] == UPDATED
    assert (end.payload["port"]["binding:host_id"], len(end.payload["port"]["fixed_ips"])) == ("h1", 1)
    await cloud.client.settle_ports([server.server_id])
    assert await told(networks) == []
    await cloud.client.release_ports([server], restore=False)
    assert await told(networks) == DELETED


async def test_a_users_port_is_told_of_when_a_server_has_it_and_when_it_has_not(
    networks: Networks, cloud: Cloud, network: Network
) -> None:
    port = await ports.create_port(networks, PortRequest(network_id=network.id, project_id=PROJECT))
    server = cloud.server(Nic(tag="0", port_id=port.id))
    await take(networks)
    await cloud.ensure(server)
    _, end = await take(networks)
    assert (end.event_type, end.payload["port"]["device_id"]) == ("port.update.end", server.server_id)
    await cloud.client.release_ports([server], restore=True)
    _, end = await take(networks)
    assert (end.event_type, end.payload["port"]["device_id"]) == ("port.update.end", "")
