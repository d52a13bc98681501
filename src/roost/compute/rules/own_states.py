"""What it means that a guest is in a state that nobody asked for: its server is stopped, or it is to be what it was.

Reports and lists are judged alike, so that a list heals whatever report was lost.
Source: Nova, compute/manager.py, _sync_instance_power_state, for servers that are stopped by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from roost.compute.model.work import Guest, ServerStanding, Stage, WorkState
from roost.compute.rules.actions import PAUSE, START, STOP, SUSPEND, ActionRule
from roost.compute.rules.guests import find_report_refusal
from roost.seams.agent import NICS_UP, Desired, GuestKey, GuestReport, ListedGuest, PowerState, ReportAnswer

STATES: Mapping[PowerState, Desired] = {
    "running": "running",
    "paused": "paused",
    "shutdown": "stopped",
    "crashed": "stopped",
    "suspended": "suspended",
}
"""What a guest does -> its state."""
JUDGED = frozenset({"running", "stopped", "paused", "suspended"})
STANDING = frozenset({"ACTIVE", "ERROR"})
RULES: Mapping[str, ActionRule] = {rule.desired: rule for rule in (START, STOP, PAUSE, SUSPEND)}
"""State of a guest -> the action that asks for it."""

STOPPED_EVENT, CRASHED_EVENT = "compute_stop_by_itself", "compute_crash"
"""Roost's own events: a guest ended by itself."""
MANY = 2
"""Guests of one host, all that it runs, whose end is one event of the host."""


class OwnState(Enum):
    """What a state that nobody asked for means. ENDED: the server is stopped from now on.

    UNDONE: the guest is to be what it was, and its server shows that. REPEATED: the same, but the server shows nothing:
    it is in ERROR, or NICs are up that are to be down while something else is done to it.
    """

    NOTHING = "nothing"
    ENDED = "ended"
    UNDONE = "undone"
    REPEATED = "repeated"


@dataclass(frozen=True)
class OwnOutcome:
    """What own states change; answers: one for each, in order.

    ended, undone, repeated: guests, as OwnState says. desired_by_key: what each of them was to be.
    """

    answers: list[ReportAnswer] = field(default_factory=list)
    ended: dict[GuestKey, ListedGuest] = field(default_factory=dict)
    undone: dict[GuestKey, ListedGuest] = field(default_factory=dict)
    repeated: dict[GuestKey, ListedGuest] = field(default_factory=dict)
    desired_by_key: dict[GuestKey, str] = field(default_factory=dict)


def guest_of_report(report: GuestReport) -> ListedGuest:
    """Return what a report of what a guest did by itself says, as a list would."""
    return ListedGuest(
        server_id=report.server_id,
        host=report.host,
        attempt=report.attempt,
        state=None if report.power_state is None else STATES[report.power_state],
        power_state=report.power_state,
        sequence=report.sequence,
    )


def list_differing(listed: Sequence[ListedGuest], guests: Iterable[Guest]) -> list[ListedGuest]:
    """Return the listed guests that are in other states than those that were reported last, by rows without locks."""
    rows_by_key = {row.key: row for row in guests}
    return [
        present
        for present in listed
        if present.state is not None
        and (row := rows_by_key.get(present.key)) is not None
        and present.state != row.reported
    ]


def list_replugged(listed: Sequence[ListedGuest], guests: Iterable[Guest]) -> set[str]:
    """Return the servers of listed guests that have other NICs than they were reported with, and no order for them."""
    rows_by_key = {row.key: row for row in guests}
    return {
        present.server_id
        for present in listed
        if present.nics_version is not None
        and (row := rows_by_key.get(present.key)) is not None
        and present.attempt == row.attempt
        and present.nics_version != row.nics_reported == row.nics_version
    }


def decide_own_states(
    present: Sequence[ListedGuest],
    *,
    agent_id: str,
    hosts_held: Iterable[str],
    guests: Iterable[Guest],
    servers: Iterable[ServerStanding],
    works: Iterable[WorkState],
) -> OwnOutcome:
    """Judge the newest word of an agent on each guest.

    guests, servers, works: the locked rows; what is missing does not exist.
    """
    outcome = OwnOutcome()
    rows_by_key = {row.key: row for row in guests}
    servers_by_id = {server.id: server for server in servers}
    works_by_server = {work.server_id: work for work in works}
    held_hosts = frozenset(hosts_held)
    newest_by_key = {guest.key: guest for guest in sorted(present, key=lambda guest: guest.sequence)}
    for guest in present:
        row = rows_by_key.get(guest.key)
        refusal, reason = find_report_refusal(guest, row, agent_id=agent_id, holds_host=guest.host in held_hosts)
        outcome.answers.append(
            ReportAnswer(
                server_id=guest.server_id, host=guest.host, accepted=refusal is None, reason=reason, refusal=refusal
            )
        )
        if refusal is not None or row is None or newest_by_key[guest.key] is not guest:
            continue
        verdict = judge(row, guest, server=servers_by_id.get(row.server_id), work=works_by_server.get(row.server_id))
        by_verdict = {
            OwnState.ENDED: outcome.ended,
            OwnState.UNDONE: outcome.undone,
            OwnState.REPEATED: outcome.repeated,
        }
        if verdict is not OwnState.NOTHING:
            by_verdict[verdict][guest.key] = guest
            outcome.desired_by_key[guest.key] = row.desired
    return outcome


def judge(row: Guest, guest: ListedGuest, *, server: ServerStanding | None, work: WorkState | None) -> OwnState:
    """Return what a guest's state means. R45: nothing while an order is open for it, or if the records know better."""
    is_open = row.reported != row.desired or row.lost or row.fenced
    if is_open or guest.sequence <= row.sequence or guest.state == row.desired:
        return OwnState.NOTHING
    if guest.state is None or not {guest.state, row.desired} <= JUDGED:
        return OwnState.NOTHING
    if not _is_quiet(row, server, work):
        return OwnState.REPEATED if guest.state in NICS_UP and row.desired not in NICS_UP else OwnState.NOTHING
    if guest.state == "stopped" and not (guest.resume and row.desired == "running"):
        return OwnState.ENDED
    return OwnState.UNDONE if server is not None and server.status == "ACTIVE" else OwnState.REPEATED


def _is_quiet(row: Guest, server: ServerStanding | None, work: WorkState | None) -> bool:
    """Return whether nothing is done to the server, and the guest is where the server is."""
    if server is None or server.host != row.host or server.status not in STANDING or server.task_state is not None:
        return False
    return work is None or (work.stage is Stage.SETTLE and not work.moving)
