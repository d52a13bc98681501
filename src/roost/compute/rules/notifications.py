"""Which notifications tell of what: of an action's begin and end, of a change of stage, of a guest's report. Tables.

Source: Nova, compute/manager.py, conductor/manager.py and compute/api.py, for the names and for who sends what in
which order; doc/notification_samples.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

from msgspec import Struct

from roost.compute.model.server import Server
from roost.compute.model.work import Failure, Marks, MoveKind, Stage, StageChange
from roost.platform.settings import StateChanges


class At(Enum):
    """Who does a step: the API, a conductor (also as the scheduler), or the agent of a host, which is named.

    SERVER: the host that the server is on; without one it is this conductor. SOURCE, DEST: of a move.
    """

    API = "nova-api"
    CONDUCTOR = "nova-conductor"
    SCHEDULER = "nova-scheduler"
    SERVER = "server"
    SOURCE = "source"
    DEST = "dest"


class Step(Struct, frozen=True):
    """One notification to be sent. phase: start, end or error; "" for a kind that has none."""

    name: str
    phase: str
    at: At

    @property
    def event_type(self) -> str:
        """Return it as consumers match it."""
        return f"{self.name}.{self.phase}" if self.phase else self.name


class ServerEvent(Struct, frozen=True, kw_only=True):
    """What happened to a server. source_host, dest_host: where its steps name them. failure: of an error.

    request: whose request it follows from, None where the server's move, or else its creation, says. of_build: it is
    its creation. gone: the server is deleted. before: the name and the states that an update has changed.
    """

    server_id: str
    step: Step
    source_host: str | None = None
    dest_host: str | None = None
    failure: Failure | None = None
    request: Mapping[str, str | None] | None = None
    of_build: bool = False
    gone: bool = False
    before: "Before | None" = None


AggregateChange = Literal["create", "delete", "add_host", "remove_host", "update_metadata", "update_prop"]
"""What happens to host aggregates; each has a start and an end."""

HostChange = Literal["create", "update", "delete"]
"""What happens to hosts' services."""


GUESTS_ENDED = "service.guests_ended"
"""Roost's own: all guests of a host stopped at once."""


class Before(Struct, frozen=True, kw_only=True):
    """What a server was before an update. old_display_name: None where it has kept its name. vm_state: None if new."""

    old_display_name: str | None = None
    vm_state: str | None
    task_state: str | None


def _start(name: str, at: At) -> Step:
    return Step(f"instance.{name}", "start", at)


def _end(name: str, at: At) -> Step:
    return Step(f"instance.{name}", "end", at)


def _error(name: str, at: At) -> Step:
    return Step(f"instance.{name}", "error", at)


STATE_CHANGED = Step("instance.update", "", At.SERVER)
"""Told where a server's state is another than before; what clients change of it is told by the API."""


def is_state_told(before: Before, server: Server, state_changes: StateChanges) -> bool:
    """Return whether consumers hear of the state that the server has now."""
    if state_changes == "vm_and_task_state" and before.task_state != server.task_state:
        return True
    return state_changes != "" and before.vm_state != server.vm_state


GUEST_ACTIONS: Mapping[str, str] = {
    "stop": "power_off",
    "start": "power_on",
    **{name: name for name in ("pause", "unpause", "suspend", "resume", "reboot", "rebuild")},
    "attach_interface": "interface_attach",
    "detach_interface": "interface_detach",
    "shelve": "shelve",
    "unshelve": "unshelve",
}
"""Actions that a server's host does, as the action log names them -> as notifications do."""

ACTIONS_BEGUN: Mapping[str, tuple[Step, ...]] = {
    **{action: (_start(name, At.SERVER),) for action, name in GUEST_ACTIONS.items()},
    "lock": (Step("instance.lock", "", At.API),),
    "unlock": (Step("instance.unlock", "", At.API),),
    "evacuate": (Step("instance.evacuate", "", At.API),),
    "delete": (_start("delete", At.SERVER),),
    "confirmResize": (_start("resize_confirm", At.SOURCE),),
    "revertResize": (_start("resize_revert", At.SERVER),),
    "live_migration_force_complete": (
        _start("live_migration_force_complete", At.SERVER),
        _end("live_migration_force_complete", At.SERVER),
    ),
    "live_migration_abort": (_start("live_migration_abort", At.SERVER), _end("live_migration_abort", At.SERVER)),
    "update": (Step("instance.update", "", At.API),),
    "resetState": (Step("instance.update", "", At.API),),
}
"""What tells that an action was asked for; those of a move follow from its stages."""

STAYING_OR_MOVING = frozenset({"shelve", "unshelve"})
"""Actions that are the host's where the server's disk is there, and else a move."""


def begun_steps(action: str, *, by_host: bool) -> tuple[Step, ...]:
    """Return what tells that an action was asked for. by_host: the server's host is to do it."""
    return () if action in STAYING_OR_MOVING and not by_host else ACTIONS_BEGUN.get(action, ())


def ended_steps(action: str, *, failed: bool) -> tuple[Step, ...]:
    """Return what tells that the host has done, or has not, what the action asks."""
    name = GUEST_ACTIONS.get(action)
    if name is None:
        return ()
    return (_error(name, At.SERVER) if failed else _end(name, At.SERVER),)


SELECT_START = Step("scheduler.select_destinations", "start", At.SCHEDULER)
SELECT_END = Step("scheduler.select_destinations", "end", At.SCHEDULER)
PLACED_STAGES = frozenset({Stage.ALLOCATE, Stage.BIND, Stage.STOP, Stage.COPY})

LAUNCHED_AS: Mapping[MoveKind | None, str] = {
    None: "create",
    MoveKind.MIGRATE: "resize_finish",
    MoveKind.RESIZE: "resize_finish",
    MoveKind.LIVE: "live_migration_post_dest",
    MoveKind.EVACUATE: "rebuild",
    MoveKind.UNSHELVE: "unshelve",
}
"""What the host of a launch does, by what the launch is for."""

FAILED_AS: Mapping[MoveKind | None, str] = {
    None: "create",
    MoveKind.MIGRATE: "resize",
    MoveKind.RESIZE: "resize",
    MoveKind.EVACUATE: "rebuild",
    MoveKind.SHELVE: "shelve",
    MoveKind.UNSHELVE: "unshelve",
}
"""What has failed when nothing more is tried; a live migration is rolled back instead."""

ROLLBACK = (
    _start("live_migration_rollback", At.SOURCE),
    _start("live_migration_rollback_dest", At.DEST),
    _end("live_migration_rollback_dest", At.DEST),
    _end("live_migration_rollback", At.SOURCE),
)
_RESIZE_BEGINS = (
    _start("resize_prep", At.DEST),
    _end("resize_prep", At.DEST),
    _start("resize", At.SOURCE),
)
_SHELVED = (_start("shelve", At.SOURCE), _end("shelve", At.SOURCE), _start("shelve_offload", At.SOURCE))

STAGES_PASSED: Mapping[tuple[MoveKind, Stage, Stage | None], tuple[Step, ...]] = {
    **{(kind, Stage.PLACE, Stage.STOP): _RESIZE_BEGINS for kind in (MoveKind.MIGRATE, MoveKind.RESIZE)},
    **{(kind, Stage.STOP, Stage.BIND): (_end("resize", At.SOURCE),) for kind in (MoveKind.MIGRATE, MoveKind.RESIZE)},
    (MoveKind.LIVE, Stage.COPY, Stage.STOP): (
        _end("live_migration_pre", At.DEST),
        _start("live_migration_post", At.SOURCE),
    ),
    (MoveKind.LIVE, Stage.BIND, Stage.LAUNCH): (_end("live_migration_post", At.SOURCE),),
    (MoveKind.EVACUATE, Stage.PLACE, Stage.STOP): (Step("instance.rebuild_scheduled", "", At.CONDUCTOR),),
    (MoveKind.SHELVE, Stage.HOLD, Stage.OFFLOAD): _SHELVED,
    (MoveKind.SHELVE, Stage.OFFLOAD, None): (_end("shelve_offload", At.SOURCE),),
    **{
        (kind, Stage.CONFIRM, None): (_end("resize_confirm", At.SOURCE),)
        for kind in (MoveKind.MIGRATE, MoveKind.RESIZE)
    },
}
"""What tells that a stage is over, besides what is so for every kind: (kind, from, to)."""


def stage_steps(marks: Marks, change: StageChange) -> tuple[Step, ...]:
    """Return what tells of a change of stage, in order. marks: where the work stood before it."""
    before, after, kind = marks.stage, change.stage, marks.kind
    if change.gone:
        return (_end("delete", At.SERVER),)
    if before is after:
        copy_begins = after is Stage.COPY and change.guest_host is not None
        return (_start("live_migration_pre", At.DEST),) if copy_begins else ()
    steps: tuple[Step, ...] = ()
    if after is Stage.PLACE:
        steps += (SELECT_START,)
    if before is Stage.PLACE and after in PLACED_STAGES:
        steps += (SELECT_END,)
    if kind is not None:
        steps += STAGES_PASSED.get((kind, before, after), ())
    if after is Stage.LAUNCH:
        steps += (_start(LAUNCHED_AS[kind], At.DEST),)
    elif before is Stage.SETTLE and after is None and kind is not None:
        steps += (_end(LAUNCHED_AS[kind], At.DEST),)
    elif before in (Stage.LAUNCH, Stage.COPY) and after is Stage.RETRY:
        steps += launch_failed_steps(kind)
    elif before is Stage.FAIL and after is None:
        steps += (_error("create", At.CONDUCTOR),)
    elif before is Stage.RESTORE and after is None:
        steps += _taken_back(kind, change.failure)
    return steps


def created_step() -> Step:
    """Return what tells that a build is over, as its host says."""
    return _end(LAUNCHED_AS[None], At.DEST)


def launch_failed_steps(kind: MoveKind | None) -> tuple[Step, ...]:
    """Return what tells that a launch has failed, as its host says, after which another may be tried."""
    return ROLLBACK if kind is MoveKind.LIVE else (_error(LAUNCHED_AS[kind], At.DEST),)


def _taken_back(kind: MoveKind | None, failure: Failure | None) -> tuple[Step, ...]:
    if failure is None:
        return (_end("resize_revert", At.SOURCE),)
    if kind is MoveKind.LIVE:
        return ROLLBACK
    return (_error(FAILED_AS[kind], At.CONDUCTOR),)


def publisher_of(event: ServerEvent, *, server_host: str | None, here: str) -> str:
    """Return the service and the host that do the step. server_host: where the server is; here: this machine."""
    host = {At.SERVER: server_host, At.SOURCE: event.source_host, At.DEST: event.dest_host}.get(event.step.at)
    if host is not None:
        return f"nova-compute:{host}"
    service = event.step.at if event.step.at in (At.API, At.SCHEDULER) else At.CONDUCTOR
    return f"{service.value}:{here}"
