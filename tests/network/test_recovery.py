"""While the compute service's records recover, no client gets an address."""

from typing import Any

import pytest
from tests.network.cloud import PROJECT, Cloud
from tests.network.conftest import MemberCompute

from roost.network.errors import AddressesWithheld
from roost.network.model.ports import Binding, FixedIpRequest, PortChanges, PortFilter, PortRequest
from roost.network.service import Networks, ports
from roost.platform.env import Env

REASON = "the records went back in time"


async def make_port(networks: Networks, network: Any) -> Any:
    return await ports.create_port(networks, PortRequest(network_id=network.id, project_id=PROJECT))


@pytest.fixture
async def network(cloud: Cloud) -> Any:
    network = await cloud.network()
    await cloud.subnet(network, "10.0.0.0/29")
    return network


async def test_a_port_gets_no_address_until_the_records_have_recovered(
    networks: Networks, compute: MemberCompute, network: Any
) -> None:
    port = await make_port(networks, network)
    compute.recovery = REASON
    networks.recovery_seen = (None, None)
    with pytest.raises(AddressesWithheld, match=REASON):
        await make_port(networks, network)
    fixed_ips = (FixedIpRequest(ip_address="10.0.0.6"),)
    with pytest.raises(AddressesWithheld, match=REASON):
        await ports.update_port(networks, port.id, PortChanges(fixed_ips=fixed_ips))
    await ports.update_port(networks, port.id, PortChanges(name="renamed"))
    assert len(await ports.list_ports(networks, PortFilter())) == 1
    compute.recovery = None
    networks.recovery_seen = (None, None)
    await make_port(networks, network)


async def test_a_binding_that_is_activated_gives_no_address_meanwhile(
    networks: Networks, compute: MemberCompute, cloud: Cloud
) -> None:
    routed, _ = await cloud.routed("10.1.0.0/29")
    owner = {"device_owner": "compute:nova", "device_id": "vm"}
    port = await ports.create_port(networks, PortRequest(network_id=routed.id, project_id=PROJECT, **owner))
    await ports.create_binding(networks, port.id, Binding(host="h1"))
    compute.recovery = REASON
    networks.recovery_seen = (None, None)
    with pytest.raises(AddressesWithheld, match=REASON):
        await ports.activate_binding(networks, port.id, "h1")
    assert (await ports.get_port(networks, port.id)).addresses == ()


async def test_the_compute_service_is_asked_once_a_second(
    networks: Networks, compute: MemberCompute, network: Any
) -> None:
    now = networks.env.now()
    networks.env = replace_clock(networks.env, now)
    await make_port(networks, network)
    compute.recovery = REASON
    await make_port(networks, network)
    networks.env = replace_clock(networks.env, now.replace(year=now.year + 1))
    with pytest.raises(AddressesWithheld):
        await make_port(networks, network)


def replace_clock(env: Env, now: Any) -> Env:
    return Env(now=lambda: now, new_uuid=env.new_uuid, random=env.random)
