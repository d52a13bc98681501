"""Which events there are: of a change of stage, and of hosts whose states change. Boots that go well have none."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from roost.compute.model.cloud import HostStateChange
from roost.compute.model.events import Occurrence
from roost.compute.model.work import Cause, Failure, Marks, Stage, StageChange
from roost.compute.rules.guests import lost_guest_sentence
from roost.platform.events import (
    FAILURE,
    FENCE,
    HOST,
    LOSS,
    MOVE,
    REFUSAL,
    REPAIR,
    RETRY,
    WHOLE_HOST,
    Event,
    Subject,
    join_alike,
)
from roost.platform.structs import copy_as
from roost.seams.agent import GuestKey

BOOT = "boot"
"""The action of a server that is made; a move's is its kind."""

PLACING = frozenset({Stage.CREATE_PORTS, Stage.HOLD, Stage.PLACE, Stage.ALLOCATE, Stage.BIND, Stage.ASK})
"""Stages that refuse a server what it asks for. After those that follow it was launched, and failed."""

PORTS, LAUNCH, QUOTA, OTHER = "ports", "launch", "quota", "other"
"""Requirements without a funnel: a port that cannot be had, a launch, a quota; networks that no figure names."""


def find_occurrence(marks: Marks, change: StageChange) -> Occurrence | None:
    """Return what a change of stage is as an event; None for one that goes well. marks: where the work stood."""
    before, after = marks.stage, change.stage
    if before is Stage.RETRY and after is Stage.PLACE:
        return _failed(RETRY, marks, change)
    is_end = after is (Stage.FAIL if marks.kind is None else Stage.RESTORE) and before is not after
    if is_end and change.failure is not None:
        if before in PLACING:
            return _failed(REFUSAL, marks, change)
        return _failed(FAILURE, marks, change) if marks.kind is None else None  # of a move, its end tells it
    if after is None and change.move is not None and not change.gone:
        return _moved(marks, change)
    return None


def _failed(kind: str, marks: Marks, change: StageChange) -> Occurrence:
    failure = change.failure or Failure(message="")
    requirement = PORTS if kind == REFUSAL else LAUNCH
    return Occurrence(
        kind=kind,
        action=_action(marks),
        server_id=change.server_id,
        host=failure.host,
        source_host=marks.source_host,
        reason=failure.message,
        funnel=failure.funnel,
        cause=failure.cause or Cause(requirement=requirement),
    )


def _moved(marks: Marks, change: StageChange) -> Occurrence:
    assert change.move is not None
    failure = change.failure or (change.server.fault if change.server else None)
    words = [change.move.status, *([failure.message] if failure else [])]
    return Occurrence(
        kind=MOVE,
        action=change.move.kind.value,
        server_id=change.server_id,
        host=change.server.host if change.server else None,
        source_host=marks.source_host,
        reason=": ".join(words),
    )


def _action(marks: Marks) -> str:
    return BOOT if marks.kind is None else marks.kind.value


def of_hosts(action: str, hosts: Iterable[str], reason: str, *, by: Subject | None = None) -> list[Occurrence]:
    """Return that these hosts are in another state now. action: that state, such as `silent`."""
    return [Occurrence(kind=HOST, action=action, host=host, reason=reason, by=by) for host in hosts]


def of_lost(keys: Iterable[GuestKey]) -> list[Occurrence]:
    """Return that these guests are gone from their hosts, and that nobody asked for it."""
    return [_of_guest(LOSS, key, lost_guest_sentence(key[1])) for key in sorted(keys)]


def of_restored(keys: Iterable[GuestKey]) -> list[Occurrence]:
    """Return that servers are not in ERROR any more, since their hosts show guests that were believed to be lost."""
    return [_of_guest(REPAIR, key, "its host shows its guest") for key in sorted(keys)]


def of_fenced(keys: Iterable[GuestKey]) -> list[Occurrence]:
    """Return that these guests are fenced: their hosts destroy them before they make any other."""
    return [_of_guest(FENCE, key, f"host {key[1]} destroys it before it makes any other guest") for key in sorted(keys)]


def of_own_states(
    ended: Mapping[GuestKey, str | None], undone: Mapping[GuestKey, str], *, whole_hosts: Collection[str]
) -> list[Occurrence]:
    """Return which guests stopped by themselves, and which are asked for their states again.

    ended: with what their hosts say they do now. undone: with the states that they are to be in. whole_hosts: those of
    which all guests stopped at once.
    """
    at_once = "all guests of a host stopped at once"
    return [
        *(
            replace(_of_guest(LOSS, key, at_once), action=WHOLE_HOST)
            if key[1] in whole_hosts
            else _of_guest(LOSS, key, f"it stopped by itself: {state or 'shutdown'}")
            for key, state in ended.items()
        ),
        *(_of_guest(REPAIR, key, f"it is not {state}, and is asked for that again") for key, state in undone.items()),
    ]


def _of_guest(kind: str, key: GuestKey, reason: str) -> Occurrence:
    return Occurrence(kind=kind, action="guest", server_id=key[0], host=key[1], reason=reason)


def of_returned(hosts: Iterable[str]) -> list[Occurrence]:
    """Return that hosts which were silent are heard of again."""
    return of_hosts("up", sorted(hosts), "its agent is heard of again")


def of_waiting(hosts: Iterable[str]) -> list[Occurrence]:
    """Return that these new hosts wait for an operator."""
    return of_hosts("waiting", sorted(hosts), "nobody declared it: it waits to be accepted")


def of_promises_kept(hosts: Iterable[str]) -> list[Occurrence]:
    """Return that the agents of silent hosts have the NICs of all their guests down by now, as they promised."""
    reason = "it is silent, and its agent promised that the NICs of its guests are down by now"
    return [Occurrence(kind=FENCE, action=WHOLE_HOST, host=host, reason=reason) for host in hosts]


def of_silent_cells(cells_by_host: Mapping[str, str]) -> list[Occurrence]:
    """Return that these hosts are closed, since no conductor of their cells is there."""
    reasons = {host: f"no conductor of cell {cell} is there" for host, cell in sorted(cells_by_host.items())}
    return [each for host, reason in reasons.items() for each in of_hosts("closed", [host], reason)]


def of_too_old(too_old_by_host: Mapping[str, bool], *, version_min: int) -> list[Occurrence]:
    """Return which hosts are closed for the service versions of their agents, and which are open again."""
    closed = sorted(host for host, too_old in too_old_by_host.items() if too_old)
    opened = sorted(too_old_by_host.keys() - set(closed))
    return [
        *of_hosts("closed", closed, f"its agent is of a service version below {version_min}"),
        *of_hosts("open", opened, f"its agent is of service version {version_min} or later again"),
    ]


def of_idle(idle_by_host: Mapping[str, bool]) -> list[Occurrence]:
    """Return which hosts are closed since they began no launch, and which are tried again."""
    closed = sorted(host for host, is_idle in idle_by_host.items() if is_idle)
    opened = sorted(idle_by_host.keys() - set(closed))
    return [
        *of_hosts("closed", closed, "its agent polls, and began none of its last launches"),
        *of_hosts("open", opened, "its agent begins launches again, or is tried once more"),
    ]


def of_records(kind: str, reason: str) -> list[Occurrence]:
    """Return that the records went back in time, or follow the hosts again."""
    return [Occurrence(kind=kind, action="records", reason=reason)]


def of_operator(change: HostStateChange, *, by: Subject | None) -> list[Occurrence]:
    """Return what an operator changed of a host; nothing where it was so before. by: the operator's request."""
    host, states = change.host, dict[str, str]()
    if host.disabled and not change.was_disabled:
        states["closed"] = ": ".join(["an operator disabled it", *filter(None, [host.disabled_reason])])
    if change.was_disabled and not host.disabled:
        states["open"] = "an operator enabled it"
    if host.forced_down and not change.was_forced_down:
        states["down"] = "an operator says that nothing runs there"
    if change.was_forced_down and not host.forced_down:
        states["up"] = "an operator does not force it down any more"
    return [each for state, reason in states.items() for each in of_hosts(state, [host.name], reason, by=by)]


def make_events(
    occurrences: Sequence[Occurrence], subjects_by_id: Mapping[str, tuple[str | None, Subject]]
) -> list[Event]:
    """Return the events; servers to which the same happened are one. subjects_by_id: with each server's project."""
    return join_alike(_event(occurrence, subjects_by_id) for occurrence in occurrences)


def _event(occurrence: Occurrence, subjects_by_id: Mapping[str, tuple[str | None, Subject]]) -> Event:
    server_id, by = occurrence.server_id, occurrence.by
    project_id, subject = None, by
    if server_id is not None:
        project_id, of_server = subjects_by_id.get(server_id, (None, Subject(server_id=server_id)))
        subject = of_server if by is None else Subject(
            server_id=server_id,
            name=of_server.name,
            request_id=by.request_id,
            global_request_id=by.global_request_id,
        )  # fmt: skip
    cause = occurrence.cause or Cause(requirement="")
    return copy_as(
        Event,
        occurrence,
        requirement=cause.requirement,
        project_id=None if occurrence.action == WHOLE_HOST else project_id,
        network_id=cause.network_id,
        network=cause.network,
        segment_id=cause.segment_id,
        segment=cause.segment,
        subjects=() if subject is None else (subject,),
    )


def labels_of(occurrence: Occurrence) -> tuple[str, str, str] | None:
    """Return (requirement, network, segment) by which a boot that is refused is counted; None for what is none.

    They are bounded: networks that are neither routed nor shared are `other`, as projects make any number of them.
    """
    if occurrence.kind not in (REFUSAL, FAILURE) or occurrence.action != BOOT:
        return None
    cause = occurrence.cause
    assert cause is not None
    if cause.network_id is None or cause.is_common:
        return cause.requirement, cause.network, cause.segment
    return cause.requirement, OTHER, OTHER
