"""What is done about each server that is to leave its host, by how it stands. Nothing is kept of it but that.

A round looks at all of them, confirms the moves that wait for it, and begins as many as may be under way at once.
Whatever happened between two rounds, the next one sees what came of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from roost.compute.model.cloud import Host
from roost.compute.model.departures import Departure
from roost.compute.model.events import Occurrence
from roost.compute.model.work import MoveKind
from roost.platform.events import DRAIN, Subject
from roost.seeing.model import DRAINED, Drain, DrainKind, DrainPlan, DrainProgress, DrainRequest, ServerStaying

TRIES_MAX = 3
"""Moves of one server that may fail; then it stays, with the reason of the last."""

RETRY_PAUSE_S = 5.0
"""After a move that failed; what stood in its way may be gone then."""

SETTLE_S = 3.0
"""From a round that changed hosts to the next: a build that had chosen a host before it was closed comes there by then.
"""
DEADLINE_MAX_S = 10 * 365 * 86400.0

RESIZED = "resized"
LIVE_STATES = frozenset({"active", "paused"})

OVERDUE = "the deadline passed before its turn came"
CANCELLED = "the drain was cancelled before its turn came"


class Step(Enum):
    """What is done about a server: its move begins or is confirmed, or is under way; it waits, or stays for good."""

    BEGIN = "begin"
    CONFIRM = "confirm"
    MOVING = "moving"
    WAIT = "wait"
    STAY = "stay"


class Decision(Struct, frozen=True, kw_only=True):
    """kind: of the move that begins, or would. reason: why the server waits or stays."""

    departure: Departure
    step: Step
    kind: MoveKind | None = None
    reason: str = ""


def decide(kind: DrainKind, departure: Departure) -> Decision:
    """Return what is to be done about a server now."""

    def decided(step: Step, reason: str = "", move_kind: MoveKind | None = None) -> Decision:
        return Decision(departure=departure, step=step, reason=reason, kind=move_kind)

    server, stage = departure.server, departure.context.stage
    if departure.move_kind is not None and server.vm_state == RESIZED and stage is None:
        if not departure.own:
            return decided(Step.STAY, "it was moved or resized, and waits until that is confirmed or reverted")
        return decided(Step.STAY, departure.confirm_refusal) if departure.confirm_refusal else decided(Step.CONFIRM)
    if kind is DrainKind.RECOVER and not departure.host_down and departure.move_kind is None:
        return decided(Step.STAY, up_sentence([departure.host]))
    host_is_lost = kind is DrainKind.DRAIN and departure.host_down
    if departure.move_kind is not None and not departure.own:
        return decided(Step.WAIT, "another move of it is under way")
    if departure.move_kind is not None:
        return decided(Step.WAIT, _lost_sentence(departure)) if host_is_lost else decided(Step.MOVING)
    if stage is not None:
        return decided(Step.WAIT, f"its build or delete is under way, at the stage {stage.value}")
    if departure.failures >= TRIES_MAX:
        return decided(Step.STAY, f"{departure.failures} moves of it failed, the last one as: {departure.failure}")
    move_kind = choose_move(kind, server.vm_state)
    if host_is_lost:  # so may be what its server is said to be
        return decided(Step.WAIT, _lost_sentence(departure), move_kind)
    refusal = departure.refusals[move_kind]
    if refusal is not None and server.task_state is None:
        return decided(Step.STAY, refusal)
    if refusal is not None:
        return decided(Step.WAIT, refusal)
    if departure.failed_s is not None and departure.failed_s < RETRY_PAUSE_S:
        return decided(Step.WAIT, f"it is tried again, as a move failed: {departure.failure}", move_kind)
    return decided(Step.BEGIN, move_kind=move_kind)


def _lost_sentence(departure: Departure) -> str:
    if departure.move_kind is not None:
        return f"its move waits for host {departure.host}, which is down"
    return f"host {departure.host} is down: if it is dead, `roost recover` takes its servers elsewhere"


def choose_move(kind: DrainKind, vm_state: str) -> MoveKind:
    """Return how a server in that state leaves its host."""
    if kind is DrainKind.RECOVER:
        return MoveKind.EVACUATE
    return MoveKind.LIVE if vm_state in LIVE_STATES else MoveKind.MIGRATE


class HostChange(Enum):
    """What is to be done to a host, so that it is as its drain wants it."""

    DISABLE = "disabled"
    ENABLE = "enabled"
    FORCE_DOWN = "forced down"


def list_host_changes(drain: Drain, hosts: Sequence[Host]) -> list[tuple[Host, HostChange]]:
    """Return what is to be done to the drain's hosts, in order.

    A host that is disabled with the drain's reason is one that this drain disabled, or an earlier one that is over. A
    host that was heard of is not dead, whatever was vouched for; nobody takes back that one is.
    """
    if drain.kind is DrainKind.RECOVER:
        dead = [host for host in hosts if host.down and not host.forced_down]
        return [] if drain.cancelled or drain.overdue else [(host, HostChange.FORCE_DOWN) for host in dead]
    if drain.cancelled:
        closed = [host for host in hosts if host.disabled and host.disabled_reason == drain.reason]
        return [(host, HostChange.ENABLE) for host in closed]
    return [(host, HostChange.DISABLE) for host in hosts if _is_to_close(drain, host)]


def _is_to_close(drain: Drain, host: Host) -> bool:
    """Return whether the host is open, or closed by an earlier drain, whose cancelling would open it."""
    reason = host.disabled_reason or ""
    return not host.disabled or (reason.startswith(DRAINED) and reason != drain.reason)


class Round(Struct, frozen=True, kw_only=True):
    """What one round does. begin: (server id, kind of its move), in order. over: nothing is left to be done."""

    confirm: tuple[str, ...]
    begin: tuple[tuple[str, MoveKind], ...]
    progress: DrainProgress
    over: bool


def plan_round(drain: Drain, departures: Sequence[Departure]) -> Round:
    """Return what is to be done now, and how the servers stand when it is begun.

    Large servers go first: small ones find room between them. One that failed before goes after all others.
    """
    decisions = [decide(drain.kind, departure) for departure in departures]
    counts = Counter(decision.step for decision in decisions)
    ready = sorted((decision for decision in decisions if decision.step is Step.BEGIN), key=_turn)
    confirm = tuple(decision.departure.server_id for decision in decisions if decision.step is Step.CONFIRM)
    under_way = counts[Step.MOVING] + len(confirm)
    closing = CANCELLED if drain.cancelled else OVERDUE if drain.overdue else None
    begin = [] if closing else ready[: max(0, drain.parallel - under_way)]
    late = tuple(_staying(decision, closing) for decision in ready) if closing else ()
    staying = tuple(_staying(decision) for decision in decisions if decision.step in (Step.WAIT, Step.STAY))
    progress = DrainProgress(
        ready=0 if closing else len(ready) - len(begin), moving=under_way + len(begin), staying=staying + late
    )
    waits = not closing and (bool(ready) or counts[Step.WAIT] > 0)
    return Round(
        confirm=confirm,
        begin=tuple((decision.departure.server_id, decision.kind) for decision in begin if decision.kind),
        progress=progress,
        over=not waits and not under_way,
    )


def _turn(decision: Decision) -> tuple[int, int, int, str]:
    server = decision.departure.server
    return decision.departure.failures, -server.spec.memory_mb, -server.spec.vcpus, server.id


def _staying(decision: Decision, reason: str = "") -> ServerStaying:
    departure = decision.departure
    return ServerStaying(
        server_id=departure.server_id,
        name=departure.server.name,
        host=departure.host,
        reason=reason or decision.reason,
        final=decision.step is not Step.WAIT,
    )


def plan_drain(kind: DrainKind, departures: Sequence[Departure], no_room: Mapping[str, str]) -> DrainPlan:
    """Return what the drain would do. no_room: server id -> why no host has room for it."""
    decisions = [decide(kind, departure) for departure in departures]
    stays = [decision for decision in decisions if decision.step is Step.STAY]
    going = [decision for decision in decisions if decision.step is not Step.STAY]
    crowded = [decision for decision in going if decision.departure.server_id in no_room]
    kinds = Counter(
        decision.kind or decision.departure.move_kind
        for decision in going
        if decision.departure.server_id not in no_room
    )
    return DrainPlan(
        servers=len(departures),
        live=kinds[MoveKind.LIVE],
        cold=kinds[MoveKind.MIGRATE],
        evacuated=kinds[MoveKind.EVACUATE],
        staying=(
            *(_staying(decision) for decision in stays),
            *(_staying(decision, no_room[decision.departure.server_id]) for decision in crowded),
        ),
    )


def list_to_place(kind: DrainKind, departures: Sequence[Departure]) -> list[Departure]:
    """Return the servers for which a host is to be found, in the order in which their moves begin."""
    decisions = [decide(kind, departure) for departure in departures]
    return [decision.departure for decision in sorted(decisions, key=_turn) if decision.kind is not None]


def find_request_fault(request: DrainRequest, parallel_max: int) -> str | None:
    """Return why a request makes no sense, or None."""
    if not request.hosts:
        where = f"segment {request.segment} is reached by no host" if request.segment else "no host is named"
        return f"{where}: expected one host or more, or a segment that hosts reach"
    if not 1 <= request.parallel <= parallel_max:
        return f"parallel {request.parallel}: expected 1 to {parallel_max} moves at once"
    if request.deadline_s is not None and not 0 < request.deadline_s <= DEADLINE_MAX_S:
        return f"deadline_s {request.deadline_s:g}: expected seconds from now, above 0, at most {DEADLINE_MAX_S:.0f}"
    return None


def missing_sentence(names: Collection[str]) -> str:
    """Return the refusal of hosts that there are not."""
    return f"Compute host {', '.join(sorted(names))} could not be found."


def up_sentence(names: Collection[str]) -> str:
    """Return the refusal to recover hosts that are up."""
    shown = ", ".join(sorted(names))
    hosts_are = f"host {shown} is up: its agent was" if len(names) == 1 else f"hosts {shown} are up: their agents were"
    return (
        f"{hosts_are} heard of. What is up is drained, not recovered. "
        "A host that died just now is down once it has been silent for `host_down_after_s`"
    )


def find_overlap_refusal(request: DrainRequest, others: Sequence[Drain]) -> str | None:
    """Return why these hosts cannot be drained beside the drains that have some of them, or None."""
    for drain in others:
        shared = sorted(set(drain.hosts) & set(request.hosts))
        doing = "being drained" if drain.kind is DrainKind.DRAIN else "being recovered"
        is_one = "host " + shared[0] + " is" if len(shared) == 1 else "hosts " + ", ".join(shared) + " are"
        return (
            f"{is_one} {doing} by drain {drain.id}, of {len(drain.hosts)} hosts: `roost drain --watch {drain.id}` "
            "shows it; cancel it, or leave these hosts out"
        )
    return None


def of_drain(drain: Drain, action: str, words: str) -> list[Occurrence]:
    """Return what has become of a drain as an event of each of its hosts. action: such as `begun`."""
    reason, by = f"{drain.kind.value} {drain.id}: {words}", Subject(request_id=drain.request_id)
    return [Occurrence(kind=DRAIN, action=action, host=host, reason=reason, by=by) for host in drain.hosts]
