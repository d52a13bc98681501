"""How the NICs that a guest's QEMU has become those of its order while it runs.

What has to go is dead before the guest is asked to let it go, so the guest need not obey.
"""

import asyncio
import contextlib
from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.command import NICS_SPARE, Plug, nic_device, plan_plugs
from roost.agent.drivers.qemu.guest import Guest
from roost.agent.drivers.qemu.nics import open_taps, run_ip, tap_command
from roost.agent.drivers.qemu.qmp import QmpError

UNPLUG_S = 5.0
"""How long a guest has to let a NIC go."""
LOOK_S = 0.05

log = structlog.get_logger()


async def replug(guest: Guest) -> None:
    """Have a guest's QEMU have exactly the NICs of its order, of which the rules are in force.

    Raises LaunchFailed; what was done by then stays, and the next call goes on.
    """
    async with guest.plugging:
        kept = guest.plugs_kept
        gone = [replace(plug, dead=True) for plug in guest.meta.plugs if plug not in kept]
        guest.keep_plugs((*kept, *gone))  # what is written is never less than its QEMU has
        staying = await _unplug(guest, gone) if gone else []
        freed = [plug.slot for plug in gone if plug not in staying]
        slots_freed = (*(slot for slot in guest.meta.slots_freed if slot not in freed), *freed)  # R54
        plugs = plan_plugs(guest.nics, [*kept, *staying], freed=slots_freed)
        guest.keep_plugs((*plugs, *staying), slots_freed=slots_freed)
        devices = await guest.list_devices()
        for plug in plugs:
            if plug.device not in devices:
                await _plug(guest, plug)
            elif plug not in kept:
                raise LaunchFailed(f"the guest has not let go of the NIC {plug.mac} since it lost it")
        guest.is_settled = not staying


async def _unplug(guest: Guest, gone: Sequence[Plug]) -> list[Plug]:
    """Take the host's ends away, and ask the guest to let the NICs go; return those that it still has."""
    for command in ("netdev_del", "device_del"):
        for plug in gone:
            with contextlib.suppress(QmpError):  # it is gone, or was asked to go, or its slot cannot lose it
                await guest.qmp.execute(command, {"id": plug.tap if command == "netdev_del" else plug.device})
    deadline_s = asyncio.get_running_loop().time() + UNPLUG_S
    while True:
        devices = await guest.list_devices()
        staying = [plug for plug in gone if plug.device in devices]
        if not staying or asyncio.get_running_loop().time() > deadline_s:
            break
        await asyncio.sleep(LOOK_S)
    for plug in staying:
        log.warning("a guest does not let a NIC go, which is dead", server_id=guest.meta.order.server_id, mac=plug.mac)
    return staying


async def _plug(guest: Guest, plug: Plug) -> None:
    """Give the guest one NIC more, whose tap is as up as the others."""
    if plug.slot >= NICS_SPARE:
        raise LaunchFailed(f"the guest can have no more NICs while it runs: it has {NICS_SPARE} slots")
    with contextlib.suppress(QmpError):  # what an agent left that died here
        await guest.qmp.execute("netdev_del", {"id": plug.tap})
    with open_taps([plug.tap]) as (fd,):
        await run_ip([tap_command(nic, up=guest.nics_up) for nic in guest.nics if nic.tap == plug.tap])
        await guest.qmp.send_file(plug.tap, fd)
        await guest.qmp.execute("netdev_add", {"type": "tap", "id": plug.tap, "fd": plug.tap})
    await guest.qmp.execute("device_add", nic_device(plug))
