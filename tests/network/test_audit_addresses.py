"""What the audit of free ranges counts: held addresses within pools, outside of them, and those of MAC addresses."""

import pytest
from tests.network.cloud import PROJECT, Cloud, assert_sound, execute
from tests.network.parts import SLAAC

from roost.network.model.ports import FixedIpRequest, PortRequest
from roost.network.service import ports
from roost.network.service.audit import FREE_RANGES
from roost.platform.drift import Repairs

POOLS = [("10.0.0.10", "10.0.0.15"), ("10.0.0.20", "10.0.0.24")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DELETE FROM network.free_range WHERE last_address = '10.0.0.24'",
         "7 free, 9 should be; 0 of them are held"),
        ("UPDATE network.free_range SET first_address = '10.0.0.12' WHERE first_address = '10.0.0.13'",
         "10 free, 9 should be; 1 of them are held"),
        ("UPDATE network.free_range SET first_address = '10.0.0.14' WHERE first_address = '10.0.0.13'",
         "8 free, 9 should be; 0 of them are held"),
        ("UPDATE network.free_range SET last_address = '10.0.0.26' WHERE last_address = '10.0.0.24'",
         "11 free, 9 should be; 0 of them are held"),
        ("UPDATE network.free_range SET first_address = '10.0.0.18', last_address = '10.0.0.19'"
         " WHERE first_address = '10.0.0.10'", "9 free, 9 should be; 0 of them are held"),
        ("UPDATE network.address SET in_pool = NOT in_pool WHERE address <<= '10.0.0.0/24'", None),
    ],
)  # fmt: skip
async def test_free_ranges_are_the_pools_without_what_is_held(cloud: Cloud, change: str, says: str | None) -> None:
    network = await cloud.network()
    subnet = await cloud.subnet(network, "10.0.0.0/24", pools=POOLS, name="small")
    await cloud.subnet(network, "2001:db8::/64", **SLAAC)
    for address in ("10.0.0.5", "10.0.0.12", "10.0.0.17", "10.0.0.22", "10.0.0.30"):
        wanted = PortRequest(network_id=network.id, project_id=PROJECT, fixed_ips=(FixedIpRequest(ip_address=address),))
        await ports.create_port(cloud.networks, wanted)
    assert await FREE_RANGES.run(cloud.networks, repairs=Repairs.NONE) == []
    await execute(cloud, change)
    drifts = await FREE_RANGES.run(cloud.networks, repairs=Repairs.NONE)
    assert [(drift.key, drift.name, drift.says) for drift in drifts] == ([(subnet.id, "small", says)] if says else [])
    if says:
        await FREE_RANGES.run(cloud.networks, repairs=Repairs.ITSELF)
        assert await FREE_RANGES.run(cloud.networks, repairs=Repairs.NONE) == []
        await assert_sound(cloud)
