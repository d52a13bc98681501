"""Carries servers through their stages: leases batches of them, and takes each batch as far as it goes.

    create_ports -> place -> bind -> launch ... settle, or retry -> place, or fail; and delete, from anywhere
                       (allocate, on flat networks, before bind)

That is the early order; old_agents.py chooses another where agents make or bind the ports.

A stage is a function of a batch: it makes its outside effects, which can be repeated, then moves its rows on in one
transaction under their lease. Any conductor may take over any row at any time. See docs/design.md section 6.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from roost.compute.model.work import WORK_CHANNEL, Stage
from roost.compute.service.work import lease_work
from roost.conductor.bind import ask, bind
from roost.conductor.context import Build, Conductor, Lease
from roost.conductor.finish import delete, fail, launch_timeout, retry, settle
from roost.conductor.moves import confirm, copy, hold, offload, restore, stop
from roost.conductor.orders import give_orders
from roost.conductor.place import place
from roost.conductor.ports import allocate, create_ports
from roost.conductor.turns import last_turn
from roost.platform.errors import DatabaseUnavailable, TransactionVictim
from roost.platform.logs import EachMinute

ROUNDS_MAX = 64
"""Stages that one batch may pass in one lease; a server passes seven, and five more for each retry."""

LIGHT_PAUSE_S = 0.1
"""Between two looks for a light batch: each wake-up while a flood is carried would cost one."""

VICTIM_ROUNDS_MAX = 8
"""How often a stage is done whose transactions are deadlock victims each time."""

StageFunction = Callable[[Lease, Sequence[Build]], Awaitable[list[Build]]]

STAGES: tuple[tuple[Stage, StageFunction], ...] = (
    (Stage.DELETE, delete),
    (Stage.RETRY, retry),
    (Stage.FAIL, fail),
    (Stage.SETTLE, settle),
    (Stage.LAUNCH, launch_timeout),
    (Stage.CONFIRM, confirm),
    (Stage.RESTORE, restore),
    (Stage.OFFLOAD, offload),
    (Stage.CREATE_PORTS, create_ports),
    (Stage.HOLD, hold),
    (Stage.PLACE, place),
    (Stage.ALLOCATE, allocate),
    (Stage.COPY, copy),
    (Stage.STOP, stop),
    (Stage.BIND, bind),
    (Stage.ASK, ask),
)

log = structlog.get_logger()


async def run(conductor: Conductor) -> None:
    """Work until cancelled. Beside the batches there is a light one, for projects that have little at work."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(conductor.settings.batches_at_once):
            tasks.create_task(_run_batches(conductor))
        tasks.create_task(_run_batches(conductor, light=True))


async def _run_batches(conductor: Conductor, *, light: bool = False) -> None:
    each_minute = EachMinute()
    while True:
        heard = conductor.wakeups.count(WORK_CHANNEL)
        try:
            busy = await run_once(conductor, light=light)
        except DatabaseUnavailable as error:
            # A conductor that stood still learns here that its transaction was ended: a lost lease like any other.
            if not error.is_logged and each_minute.is_due(error.service):
                log.warning(f"conductor waits for {error.service}", reason=str(error))
            busy = False
        except Exception:
            # The leases of this batch run out; the stage is then done again.
            log.exception("a batch failed")
            busy = False
        if not busy:
            await asyncio.sleep(LIGHT_PAUSE_S if light else 0)
            await conductor.wakeups.wait(WORK_CHANNEL, conductor.settings.poll_s, since=heard)


async def run_once(conductor: Conductor, *, light: bool = False) -> bool:
    """Lease one batch and take it as far as it goes; whether there was one.

    light: only while all other batches run, and only of projects that have little at work: they wait for nobody's.
    """
    if light and conductor.batches_running < conductor.settings.batches_at_once:
        return False
    conductor.batches_running += not light
    try:
        return await _carry_batch(conductor, light=light)
    finally:
        conductor.batches_running -= not light


async def _carry_batch(conductor: Conductor, *, light: bool) -> bool:
    settings = conductor.settings
    owner = conductor.env.new_uuid()
    rows = await lease_work(
        conductor.compute,
        owner=owner,
        limit=settings.batch_rows,
        lease_s=settings.lease_s,
        cells=settings.cells,
        after=conductor.last_project,
        light=light,
    )
    if rows:
        conductor.last_project = last_turn(conductor.last_project, [work.project_id for work in rows])
        await carry(Lease(conductor, owner), [Build(work) for work in rows])
    return bool(rows)


async def carry(lease: Lease, builds: Sequence[Build]) -> None:
    """Take a batch through its stages until every server waits, is done, or was lost to another conductor."""
    waiting = [
        Build(msgspec.structs.replace(build.work, stage=Stage.DELETE)) if build.work.deleting else build
        for build in await give_orders(lease, builds)
    ]
    for _ in range(ROUNDS_MAX):
        if not waiting:
            return
        for stage, function in STAGES:
            batch = [build for build in waiting if build.work.stage is stage]
            if batch:
                waiting = [build for build in waiting if build.work.stage is not stage]
                waiting += await _pass(lease, function, batch)
    log.error("a batch went round too often; its leases expire", servers=len(waiting))


async def _pass(lease: Lease, function: StageFunction, batch: Sequence[Build]) -> list[Build]:
    """Run one stage of a batch; where that fails, of each server by itself, so that a bad one undoes no other.

    Stages can be repeated: one whose transaction was a deadlock victim is, at once. A server that fails by itself is
    done again when its lease runs out.
    """
    try:
        return await _until_no_victim(lease, function, batch)
    except DatabaseUnavailable:
        raise
    except Exception as error:
        if len(batch) == 1:
            log.exception("a stage failed", server=batch[0].work.server_id, stage=batch[0].work.stage.value)
            return []
        log.warning("a batch failed and is done one by one", servers=len(batch), reason=str(error))
    going_on: list[Build] = []
    for build in batch:
        going_on += await _pass(lease, function, [Build(build.work)])
    return going_on


async def _until_no_victim(lease: Lease, function: StageFunction, batch: Sequence[Build]) -> list[Build]:
    for _ in range(VICTIM_ROUNDS_MAX - 1):
        try:
            return await function(lease, batch)
        except TransactionVictim as error:
            log.warning("retrying a stage", servers=len(batch), reason=str(error))
            batch = [Build(build.work) for build in batch]
    return await function(lease, batch)
