"""Drivers that are killed at their crash points, with real guests: none dies, none is doubled, no disk is lost."""

import asyncio
from typing import Any

import pytest
from tests.agent.qemu.orders import SERVER_ID
from tests.agent.qemu.site import Host, Site
from tests.agent.qemu.test_real import ADDRESS, MARK, _qemus_of, _read, _write, on

from roost.cli.serving.crash_points import CRASH_POINTS
from roost.seams.agent import NICS_UP, GuestOrder
from roost.seams.guests import DiskKept, MemorySource

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

OWN: dict[str, Any] = {"disk_gb": 1, "disk": DiskKept(host="a")}


def points(*stages: str) -> list[str]:
    return [point for point in CRASH_POINTS if point.split(".")[0] in stages]


async def carry_out(host: Host, order: GuestOrder) -> bool:
    """Do what the agent does about an order; return whether the driver is there after it."""
    present = {guest["server_id"]: guest for guest in await host.ask("list")}
    guest = present.get(order.server_id)
    if order.desired == "absent":
        asking = host.ask("destroy", server=order.server_id, host=host.name, attempt=order.attempt, disk=True)
    elif guest is None or guest["attempt"] != order.attempt:
        asking = host.ask("launch", order=order)
    elif guest["state"] != order.desired or order.meeting is not None:
        asking = host.ask("change", order=order)
    else:
        return True
    await asyncio.wait([asking], timeout=120)
    return asking.done() and not asking.cancelled() and asking.exception() is None


async def carry_out_twice(host: Host, order: GuestOrder, point: str) -> bool:
    """Have an order carried out by a driver that dies at the point, then by the next; return whether it died."""
    await host.kill()
    await host.start(crash_at=point)
    before = _qemus_of(host)
    died = host.is_dead or not await carry_out(host, order)
    if died:
        await host.kill()
        after = _qemus_of(host)
        assert len(after) <= 1, "none is doubled"
        await host.start()
        states = await host.states()
        if order.attempt == 1 and before and order.desired != "absent":
            assert list(states) == [SERVER_ID], "none is lost"
        running = [state for state, _ in states.values() if state in NICS_UP]
        assert len(_qemus_of(host)) == len(running) == len(host.taps()), "what is listed is so"
        assert await carry_out(host, order)
    alive = _qemus_of(host)
    assert len(alive) == (order.desired in NICS_UP)
    return died


@pytest.mark.parametrize("point", points("guest", "disk"))
async def test_a_driver_that_dies_there_loses_no_guest_and_no_disk(site: Site, point: str) -> None:
    host = site.add_host("a")
    await host.start()
    died = [await carry_out_twice(host, on(host, disk_gb=1), point)]
    await site.wait_ping(ADDRESS)
    await _write(site, MARK)
    for desired in ("paused", "running", "suspended", "running", "stopped", "running"):
        died.append(await carry_out_twice(host, on(host, desired, **OWN), point))
    assert await _read(site) == MARK
    died.append(await carry_out_twice(host, on(host, attempt=2, **OWN), point))
    assert await _read(site) == MARK
    died.append(await carry_out_twice(host, on(host, "absent", attempt=2), point))
    assert any(died), "nothing came by"
    assert not list((host.state / "disks").iterdir())
    assert not list((host.state / "guests").iterdir())


@pytest.mark.parametrize("point", points("send", "receive"))
async def test_a_live_migration_whose_driver_dies_there_leaves_one_guest_that_runs(site: Site, point: str) -> None:
    source, dest = site.add_host("a"), site.add_host("b")
    await asyncio.gather(source.start(), dest.start())
    await source.launch(on(source, disk_gb=1))
    await site.wait_ping(ADDRESS)
    await _write(site, MARK)
    dying = source if point.startswith("send") else dest
    await dying.kill()
    await dying.start(crash_at=point)
    assert not await _migrate(source, dest, attempt=2), "nothing came by"
    await dying.kill()
    await dying.start()
    await dest.destroy(SERVER_ID, attempt=2)
    assert await carry_out(source, on(source, **OWN))
    assert (len(_qemus_of(source)), len(_qemus_of(dest))) == (1, 0)
    assert await _read(site) == MARK
    assert await _migrate(source, dest, attempt=3)
    await source.destroy(SERVER_ID)
    assert (len(_qemus_of(source)), len(_qemus_of(dest))) == (0, 1)
    assert await _read(site) == MARK


async def _migrate(source: Host, dest: Host, *, attempt: int) -> bool:
    """Return whether a live migration came to its end."""
    order = on(dest, "incoming", attempt=attempt, **OWN)
    meeting = MemorySource(**await dest.ask("expect", order=order))
    done = await asyncio.gather(
        carry_out(dest, order), carry_out(source, on(source, meeting=meeting, **OWN)), return_exceptions=True
    )
    if done != [True, True]:
        return False
    if not await carry_out(source, on(source, "stopped", meeting=meeting, **OWN)):
        return False
    return await carry_out(dest, on(dest, attempt=attempt, **OWN))
