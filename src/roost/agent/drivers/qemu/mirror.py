"""The root disk's copy to the destination of a live migration, which follows every write until it is ended.

Its job stays in QEMU when it is over, so that whoever ends it sees whether the destination's disk is whole.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu.guest import Guest
from roost.agent.drivers.qemu.qmp import QmpError

END_S = 60.0
STALL_S = 60.0
"""How long a copy may stand."""
LOOK_S = 0.05


async def mirror_disk(guest: Guest, stream: str) -> None:
    """Have the destination's disk be as this one, and stay so. stream: to it, as QEMU calls it. Raises LaunchFailed."""
    server = {"type": "fd", "str": stream}
    await guest.qmp.execute(
        "blockdev-add", driver="nbd", node_name="far", server=server, export="disk", discard="unmap"
    )
    await guest.qmp.execute(
        "blockdev-mirror", job_id="mirror", device="disk", target="far", sync="full", auto_dismiss=False
    )
    await wait_copied(partial(check_mirror, guest), "root disk")


async def check_mirror(guest: Guest) -> int | None:
    """Return a number that grows while the disk is copied, None once the destination's is as this one.

    Raises LaunchFailed, also where the copy is over.
    """
    job = await _find_job(guest)
    if job is None or job["status"] == "concluded":
        raise _not_copied(job)
    if job["ready"]:
        return None
    # The job does not count the zeros, which go first.
    nodes = await guest.qmp.execute("query-blockstats", query_nodes=True)
    zeros: int = sum(node["stats"]["wr_highest_offset"] for node in nodes if node.get("node-name") == "far")
    return int(job["offset"]) + zeros


async def wait_copied(look: Callable[[], Awaitable[int | None]], what: str) -> None:
    """Look until there is nothing to wait for. Raises LaunchFailed where as much is copied as STALL_S before.

    look: returns how many bytes were copied, and None at the end.
    """
    before, since_s = -1, time.monotonic()
    while (copied := await look()) is not None:
        if copied != before:
            before, since_s = copied, time.monotonic()
        elif time.monotonic() > since_s + STALL_S:
            raise LaunchFailed(f"the {what} was not copied: for {STALL_S:.0f} s there were {copied} bytes of it")
        await asyncio.sleep(LOOK_S)


async def end_mirror(guest: Guest, *, force: bool = False) -> None:
    """Have the destination's disk as it is now, and no more; with force, it may lack something.

    Raises LaunchFailed, also where it lacks something.
    """
    deadline_s = time.monotonic() + END_S
    with contextlib.suppress(QmpError):  # it is over, by itself
        await guest.qmp.execute("block-job-cancel", device="mirror", force=force)
    while (job := await _find_job(guest)) is not None and job["status"] != "concluded":
        if time.monotonic() > deadline_s:
            raise LaunchFailed(f"the root disk's copy did not end within {END_S:.0f} s: it is {job['status']}")
        await asyncio.sleep(LOOK_S)
    if job is not None:
        await guest.qmp.execute("job-dismiss", id_="mirror")
    await guest.qmp.execute("blockdev-del", node_name="far")
    if not force and (job is None or "error" in job):
        raise _not_copied(job)


async def end_leftovers(guest: Guest) -> None:
    """Have a guest's QEMU send neither memory nor disk, whoever had it do so."""
    await guest.cancel_migration()
    with contextlib.suppress(LaunchFailed):
        if guest.meta.order.disk_gb:
            await end_mirror(guest, force=True)


def _not_copied(job: dict[str, Any] | None) -> LaunchFailed:
    reason = (job or {}).get("error", "its copy is gone")
    return LaunchFailed(f"the root disk was not copied: {reason}")


async def _find_job(guest: Guest) -> dict[str, Any] | None:
    jobs: list[dict[str, Any]] = await guest.qmp.execute("query-block-jobs")
    return next((job for job in jobs if job["device"] == "mirror"), None)
