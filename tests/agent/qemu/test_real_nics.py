"""NICs that come and go while a real guest runs, and what it may send meanwhile."""

import asyncio
import os
import signal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.qemu.orders import PORT_ID, SERVER_ID, make_network, make_order, make_port
from tests.agent.qemu.site import Host, Site

from roost.seams.agent import GuestOrder
from roost.seams.guests import AddressPair, MemorySource, NicSubnet

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

FIRST, SECOND, FOREIGN = "10.1.0.2", "10.2.0.2", "10.1.0.9"
SECOND_ID = PORT_ID.replace("0a1b", "1a1b")
NICS: dict[str, tuple[Any, Any]] = {
    FIRST: (make_port(), make_network()),
    SECOND: (
        make_port(port_id=SECOND_ID, mac="52:54:00:00:00:03", addresses=(SECOND,)),
        make_network(port_id=SECOND_ID, subnets=(NicSubnet(cidr="10.2.0.0/24"),)),
    ),
}
"""Address -> a port and what is around it. Of one subnet each: a guest answers by whichever NIC reaches the other."""


def order(host: Host, addresses: tuple[str, ...], version: int, desired: str = "running", **other: Any) -> GuestOrder:
    """An order for a guest with the NICs that have these addresses."""
    ports, networks = zip(*(NICS[address] for address in addresses), strict=True) if addresses else ((), ())
    return make_order(desired, host=host.name, nics_version=version, ports=ports, networks=networks, **other)


async def nics_of(host: Host) -> list[tuple[str, ...]]:
    (guest,) = await host.ask("list")
    return [tuple(nic["addresses"]) for nic in guest.get("nics", ())]


async def falls_silent(site: Site, address: str) -> bool:
    """Return whether nothing answers at an address, twice."""
    return not await asyncio.to_thread(site.pings, address, count=2)


@pytest.fixture
async def host(site: Site) -> Host:
    """A host with a guest that has the first NIC, and answers there."""
    site.in_router("ip", "address", "add", "10.2.0.1/24", "dev", "br0")
    host = site.add_host("a")
    await host.start()
    await host.launch(order(host, (FIRST,), 0))
    await site.wait_ping(FIRST)
    return host


async def test_nics_come_and_go_while_a_guest_runs_and_move_with_it(site: Site, host: Host) -> None:
    pid = host.pid(SERVER_ID)
    await host.change(order(host, (FIRST, SECOND), 1))
    await site.wait_ping(SECOND)
    assert site.pings(FIRST)
    assert await nics_of(host) == [(FIRST,), (SECOND,)]

    await host.change(order(host, (FIRST,), 2))
    assert await falls_silent(site, SECOND)
    assert site.pings(FIRST)
    assert (len(host.taps()), await nics_of(host)) == (1, [(FIRST,)])

    await host.change(order(host, (FIRST, SECOND), 3))
    await site.wait_ping(SECOND)
    await host.change(order(host, (SECOND,), 4))  # whose slot stays the second one
    assert await falls_silent(site, FIRST)
    assert site.pings(SECOND)
    assert host.pid(SERVER_ID) == pid

    dest = site.add_host("b")
    await dest.start()
    coming = order(dest, (SECOND,), 4, "incoming", attempt=2)
    meeting = MemorySource(**await dest.ask("expect", order=coming))
    launching = dest.ask("launch", order=coming)
    await asyncio.gather(launching, host.change(order(host, (SECOND,), 4, meeting=meeting)))
    await host.change(order(host, (), 5, meeting=meeting))  # it loses its last while its memory moves
    assert await falls_silent(site, SECOND)
    await host.change(order(host, (), 5, "stopped"))
    await dest.change(order(dest, (FIRST,), 5, "incoming", attempt=2))
    await dest.change(order(dest, (FIRST,), 5, attempt=2))
    await site.wait_ping(FIRST)  # which it got as soon as it ran there
    assert await falls_silent(site, SECOND)


async def test_what_a_guest_may_send_changes_while_it_runs(site: Site, host: Host) -> None:
    shell = await asyncio.to_thread(site.connect, FIRST, 23)
    shell.sendall(f"ip address add {FOREIGN}/24 dev eth0\n".encode())
    await asyncio.sleep(2)
    assert await falls_silent(site, FOREIGN)
    port, network = NICS[FIRST]
    for version, (around, answers) in enumerate(
        [
            ({"port_security": False}, True),
            ({}, False),
            ({"pairs_allowed": (AddressPair(ip_address=FOREIGN),)}, True),
        ],
        start=1,
    ):
        networks = (replace(network, **around),)
        await host.change(make_order(host=host.name, nics_version=version, ports=(port,), networks=networks))
        assert (await falls_silent(site, FOREIGN)) is not answers
        assert site.pings(FIRST)
    shell.close()


@pytest.mark.parametrize(
    "after_s", [0.1, *(pytest.param(after_s, marks=pytest.mark.long) for after_s in (0.0, 0.03, 0.3))]
)
async def test_an_agent_that_dies_while_nics_change_goes_on_with_the_next_order(
    site: Site, host: Host, after_s: float
) -> None:
    for version, addresses in enumerate([(FIRST, SECOND), (SECOND,), (FIRST,)], start=1):
        changing = host.ask("change", order=order(host, addresses, version))
        await asyncio.sleep(after_s)
        await host.kill()
        changing.cancel()
        await host.start()
        assert await host.states() == {SERVER_ID: ("running", "running")}
        await host.change(order(host, addresses, version))
        for address in addresses:
            await site.wait_ping(address)
        for address in {FIRST, SECOND} - set(addresses):
            assert await falls_silent(site, address)


async def test_a_suspended_guest_has_its_orders_nics_once_it_runs_again(site: Site, host: Host) -> None:
    await host.change(order(host, (FIRST,), 0, "suspended"))
    await host.change(order(host, (SECOND,), 1, "suspended"))
    await host.change(order(host, (SECOND,), 1))
    await site.wait_ping(SECOND)
    assert await falls_silent(site, FIRST)


async def test_what_others_take_away_from_a_guests_network_comes_back(site: Site, host: Host) -> None:
    host.call("nft", "flush", "ruleset")  # as Debian's nftables.service does when it is started again
    for path in host.state.glob("segments/*/pid"):
        os.kill(int(path.read_text()), signal.SIGKILL)
    host.call("ip", "link", "delete", "br0")
    host.make_bridge()
    async with asyncio.timeout(60):
        while await site.list_problems(host):
            await asyncio.sleep(0.5)
    assert "rt0a1b2c3d4e5f" in host.call("nft", "list", "ruleset").stdout
    assert "rv" in host.call("ip", "link", "show", "master", "br0").stdout
    said = await site.shell(FIRST, "udhcpc -n -q -i eth0 -s /bin/true 2>&1")
    assert f"lease of {FIRST} obtained" in said
