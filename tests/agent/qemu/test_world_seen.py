"""The look at who answers at which address, and at which NICs are up: with namespaces that play guests."""

from collections.abc import Iterator

import pytest
from tests.agent.qemu.site import Host, Site, call

from roost.cli.asking.real_world import NicKnown, list_world_problems, look_at_world

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

MACS = ("52:54:00:00:00:02", "52:54:00:00:00:03")
TABLE = 'table bridge roost {{ set up {{ type ifname; flags timeout; elements = {{ "{tap}" timeout 60s }}; }}; }}'


@pytest.fixture
def plugged() -> Iterator[list[str]]:
    """Give a list of namespaces that play guests, which are deleted."""
    namespaces: list[str] = []
    yield namespaces
    for namespace in namespaces:
        call("ip", "netns", "delete", namespace, check=False)


def plug(plugged: list[str], host: Host, *, tap: str, mac: str, address: str) -> None:
    """Have a namespace that answers at the address, behind an interface of the host that may speak."""
    plugged.append(namespace := f"{host.namespace}-{tap}")
    call("ip", "netns", "add", namespace)
    host.call("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    host.call("ip", "link", "set", tap, "master", "br0", "up")
    inside = ("ip", "-n", namespace)
    call(*inside, "link", "set", "eth0", "address", mac, "up")
    call(*inside, "address", "add", f"{address}/24", "dev", "eth0")
    host.call("nft", TABLE.format(tap=tap))


async def test_whoever_answers_is_seen_and_where_its_nic_is_up(site: Site, plugged: list[str]) -> None:
    hosts = [site.add_host(name) for name in ("a", "b")]
    for host, tap, mac in zip(hosts, ("rt1", "rt2"), MACS, strict=True):
        plug(plugged, host, tap=tap, mac=mac, address="10.1.0.2")
    nics = [NicKnown(server="web", tap="rt1", mac=MACS[0], addresses=("10.1.0.2",), host="a")]
    namespaces = {host.name: host.namespace for host in hosts}
    seen = await look_at_world(site.router, ["10.1.0.0/24"], namespaces, nics)
    assert seen.asked == 253, "all but the router's own"
    assert seen.hosts_by_tap == {"rt1": ("a",), "rt2": ("b",)}
    assert {address for address, macs in seen.macs_by_address.items() if macs} == {"10.1.0.2"}
    assert list_world_problems(nics, seen) == [
        f"address 10.1.0.2 answers twice, as {MACS[0]} and {MACS[1]}",
        "NIC rt2 is up on b: no server has it",
    ]
    hosts[1].call("nft", "flush set bridge roost up")
    hosts[1].call("ip", "link", "set", "rt2", "down")
    assert list_world_problems(nics, await look_at_world(site.router, ["10.1.0.0/24"], namespaces, nics)) == []
