"""What an agent's reports mean for guests, servers and work: the fence between hosts and the pipeline.

It decides; `service/guests.py` locks, reads and writes, and the conductor carries on with what comes out. A guest
belongs to the agent that began it or lists it, and only that agent can say that it is gone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.work import Failure, Guest, Retreat, Stage, WorkState
from roost.seams.agent import NICS_UP, GuestAttempt, GuestKey, GuestReport, ListedGuest, Refusal, ReportAnswer
from roost.seams.guests import MemorySource

PRESENT = ("running", "stopped", "paused", "suspended", "incoming")
"""States of a guest that is there."""
SENDING = (*NICS_UP, "stopped")
"""What a guest is to be that sends what it has to another host: its memory while its NICs are up, else its disk."""
RECOVERING = "the records went back in time, and wait until the hosts have listed their guests"


@dataclass(frozen=True)
class ReportOutcome:
    """What a set of reports changes; answers: one for each report, in order.

    begun, gone: guest rows to mark or to delete. states: guest -> what it is now; sequences: as of which word. active:
    server id -> the host it runs on, its work settles. changed: server id -> (host, state) of servers without work.
    unchanged: server id -> why its host did not do what was asked of a server without work; kept: the same of servers
    whose hosts do not stop them. retreats: server id -> why its work goes to retry. resumed: servers whose work waits
    no longer. lost: guests that are gone although nobody asked for that; found_again: guests that were lost and are
    there. nics_versions: guest -> as of which change of its server's ports it has its NICs. unplugged: servers of which
    a host has said just now that its guest has no others. meetings: guest -> where it awaits its memory. asked_again:
    guest -> the state in which its host is asked for it once more, since it is told now where its memory is to go.
    """

    answers: list[ReportAnswer] = field(default_factory=list)
    begun: set[GuestKey] = field(default_factory=set)
    states: dict[GuestKey, str] = field(default_factory=dict)
    sequences: dict[GuestKey, int] = field(default_factory=dict)
    gone: set[GuestKey] = field(default_factory=set)
    active: dict[str, str] = field(default_factory=dict)
    changed: dict[str, tuple[str, str]] = field(default_factory=dict)
    unchanged: dict[str, Failure] = field(default_factory=dict)
    kept: dict[str, Failure] = field(default_factory=dict)
    retreats: dict[str, Retreat] = field(default_factory=dict)
    resumed: set[str] = field(default_factory=set)
    lost: set[GuestKey] = field(default_factory=set)
    found_again: set[GuestKey] = field(default_factory=set)
    nics_versions: dict[GuestKey, int] = field(default_factory=dict)
    unplugged: set[str] = field(default_factory=set)
    meetings: dict[GuestKey, MemorySource] = field(default_factory=dict)
    asked_again: dict[GuestKey, str] = field(default_factory=dict)

    @property
    def moves_work(self) -> bool:
        """Return whether a conductor has something to do now."""
        return bool(self.active or self.retreats or self.resumed or self.kept)


def decide_reports(
    reports: Sequence[GuestReport],
    *,
    agent_id: str,
    hosts_held: Collection[str],
    guests: Iterable[Guest],
    works: Iterable[WorkState],
) -> ReportOutcome:
    """Take or refuse each report of one agent, in order: a later one sees what an earlier one changed.

    hosts_held: the hosts on which the agent has the lease. guests, works: the locked rows of the servers that are
    reported on; a missing one does not exist. Of a server whose report names a meeting, its guests on all hosts.
    """
    outcome = ReportOutcome()
    guests_by_key = {(guest.server_id, guest.host): guest for guest in guests}
    works_by_server = {work.server_id: work for work in works}
    for report in reports:
        key = report.key
        guest = guests_by_key.get(key)
        refusal, reason = find_report_refusal(report, guest, agent_id=agent_id, holds_host=report.host in hosts_held)
        if refusal is None and guest is not None:
            _take(outcome, report, guest, guests_by_key, works_by_server, agent_id=agent_id)
        outcome.answers.append(
            ReportAnswer(
                server_id=report.server_id,
                host=report.host,
                accepted=refusal is None,
                reason=reason,
                refusal=refusal,
            )
        )
    outcome.begun.difference_update(outcome.states, outcome.gone, outcome.lost)
    for key in outcome.gone | outcome.lost:
        outcome.states.pop(key, None)
    outcome.found_again.difference_update(outcome.gone, outcome.lost)
    return outcome


def _take(
    outcome: ReportOutcome,
    report: GuestReport,
    guest: Guest,
    guests_by_key: dict[GuestKey, Guest],
    works_by_server: dict[str, WorkState],
    *,
    agent_id: str,
) -> None:
    """Record what a report changes that nothing refuses."""
    key, work = report.key, works_by_server.get(report.server_id)
    if report.meeting is not None and (guest.desired == "incoming" or report.state == "begun"):
        _meet(outcome, report, guests_by_key.values())
        guest = guests_by_key[key] = replace(guest, meeting=report.meeting)
    if report.state == "begun":
        outcome.begun.add(key)
        guests_by_key[key] = replace(guest, agent_id=agent_id)
    elif report.state == "unchanged":
        _stay(outcome, report, guest, work)
    elif _sends_elsewhere(report, guests_by_key.values()):
        pass  # R48: its order stays open
    elif report.state in PRESENT:
        outcome.states[key] = report.state
        outcome.sequences[key] = report.sequence
        nics_version = _nics_version(report, guest)
        outcome.nics_versions[key] = nics_version
        if guest.nics_reported != nics_version == guest.nics_version:
            outcome.unplugged.add(report.server_id)
        guests_by_key[key] = replace(
            guest, agent_id=agent_id, reported=report.state, lost=False, nics_reported=nics_version
        )
        if guest.lost:
            outcome.found_again.add(key)
        if report.state == guest.desired:
            _settle(outcome, works_by_server, guest, work)
    elif _was_asked(guest, work):
        del guests_by_key[key]
        outcome.gone.add(key)
        if guest.nics_reported != guest.nics_version:
            outcome.unplugged.add(report.server_id)
        _let_go(outcome, works_by_server, report, guest, work)
    else:
        guests_by_key[key] = replace(guest, lost=True)
        outcome.lost.add(key)


def _meet(outcome: ReportOutcome, report: GuestReport, guests: Iterable[Guest]) -> None:
    """Record where a guest awaits what another has; once it does, the guest that has it is asked for anew."""
    assert report.meeting is not None
    outcome.meetings[report.key] = report.meeting
    if report.state != "begun":
        return
    for guest in guests:
        if guest.server_id == report.server_id and guest.host != report.host and guest.desired in SENDING:
            outcome.asked_again[guest.key] = guest.desired


def _nics_version(report: GuestReport, guest: Guest) -> int:
    """Return as of which change of its server's ports a guest has its NICs, by the report of its present state.

    An agent that does not say has them as it was told last: what it says of an order that is not done says nothing.
    """
    if report.nics_version is None:  # R49
        return guest.nics_version if report.state == guest.desired else guest.nics_reported
    return report.nics_version


def _sends_elsewhere(report: GuestReport, guests: Iterable[Guest]) -> bool:
    """Return whether a guest sends its memory, or its disk, to where it is awaited no more."""
    return report.meeting is not None and any(
        guest.server_id == report.server_id
        and guest.host != report.host
        and (guest.desired == "incoming" if report.state in NICS_UP else guest.awaits_disk)
        and guest.meeting != report.meeting
        for guest in guests
    )


def refuse_for_now(report: GuestReport) -> ReportAnswer:
    """Return the answer by which an agent makes its report again, and begins nothing: the records recover."""
    return ReportAnswer(
        server_id=report.server_id, host=report.host, accepted=False, reason=RECOVERING, refusal=Refusal.NO_LEASE
    )


class GuestList(Struct, frozen=True, kw_only=True):
    """What an agent's list of its guests changes.

    adopted: guests that another agent had, or nobody, and this one lists, as they are asked for or as they were before
    they were asked for anew. begun: those of them that are as asked for. lost, found_again: as in ReportOutcome.
    disowned: guests that a former agent had and the host has not: they are nobody's. gone: those that were to go.
    taken_over: guests that are more than awaiting memory, as they are to: it came before the records went back in time,
    so their sources are not to run. superseded: listed guests that must be destroyed: fenced, or made anew, here or
    elsewhere. unknown: listed guests that nobody here asked for, for a person to decide on.
    """

    adopted: frozenset[GuestKey] = frozenset()
    begun: frozenset[GuestKey] = frozenset()
    disowned: frozenset[GuestKey] = frozenset()
    gone: frozenset[GuestKey] = frozenset()
    lost: frozenset[GuestKey] = frozenset()
    found_again: frozenset[GuestKey] = frozenset()
    taken_over: frozenset[GuestKey] = frozenset()
    superseded: tuple[GuestAttempt, ...] = ()
    unknown: tuple[GuestAttempt, ...] = ()

    @property
    def changes_guests(self) -> bool:
        """Return whether guest rows are to be written."""
        return bool(self.keys_changed)

    @property
    def keys_changed(self) -> frozenset[GuestKey]:
        """Return the guests whose rows are to be written."""
        return self.adopted | self.disowned | self.gone | self.lost | self.found_again | self.taken_over


def decide_guest_list(
    listed: Sequence[ListedGuest],
    *,
    agent_id: str,
    as_of_s: float,
    guests: Iterable[Guest],
    attempts_by_server: Mapping[str, int],
    agents_alive: Collection[str] = frozenset(),
    recovering: bool = False,
) -> GuestList:
    """Compare all guests that an agent has on some hosts with what those hosts are asked for.

    listed: made after as_of_s of the database's clock: a guest that was reported running before and is missing is gone.
    guests: the rows of these hosts. attempts_by_server: the highest attempt that a host has begun of each listed
    server, which alone proves that a guest of a lower one is no longer wanted: a restored database knows less than the
    hosts. agents_alive: agents that serve some host now. What another one of them had here it may still have (R25).
    recovering: the records went back in time; then no guest is to be destroyed (R44).
    """
    adopted, begun, lost, found_again, disowned, gone = (set[GuestKey]() for _ in range(6))
    listed_by_key = {guest.key: guest for guest in listed}
    rows_by_key = {(guest.server_id, guest.host): guest for guest in guests}
    for key, row in rows_by_key.items():
        if (present := listed_by_key.get(key)) is None:
            begun_elsewhere = row.agent_id not in (None, agent_id)
            if begun_elsewhere and row.agent_id not in agents_alive:
                (gone if row.desired == "absent" else disowned).add(key)
            was_there = row.reported in PRESENT or begun_elsewhere
            if row.desired != "absent" and not row.lost and was_there and row.since_s < as_of_s:
                lost.add(key)
        elif present.attempt == row.attempt:
            if row.agent_id != agent_id:
                begun.add(key)
            if row.lost:
                found_again.add(key)
    superseded, unknown = [], []
    for key, present in listed_by_key.items():
        known = rows_by_key.get(key)
        if known is not None and known.attempt == present.attempt:
            if known.fenced and not recovering:
                superseded.append(present)
            continue
        if present.attempt < attempts_by_server.get(present.server_id, 0) and not recovering:
            superseded.append(present)
        elif known is not None and present.attempt < known.attempt and present.attempt != known.unknown_attempt:
            if known.agent_id != agent_id:
                adopted.add(key)  # the order that follows replaces it
        else:
            unknown.append(present)  # R26; it stays so where its server is asked for anew
    return GuestList(
        adopted=frozenset(adopted | begun),
        begun=frozenset(begun),
        disowned=frozenset(disowned),
        gone=frozenset(gone),
        lost=frozenset(lost),
        found_again=frozenset(found_again),
        taken_over=_list_taken_over(rows_by_key, listed_by_key),
        superseded=tuple(superseded),
        unknown=tuple(unknown),
    )


def _list_taken_over(
    rows_by_key: Mapping[GuestKey, Guest], listed_by_key: Mapping[GuestKey, ListedGuest]
) -> frozenset[GuestKey]:
    """Return the guests that are to await memory, and do not: their hosts are further than the records."""
    return frozenset(
        key
        for key, row in rows_by_key.items()
        if row.desired == "incoming"
        and (present := listed_by_key.get(key)) is not None
        and present.attempt == row.attempt
        and present.state not in (None, "incoming")
    )


def lost_guest_sentence(host: str) -> str:
    """Return what a server's fault says when its guest is gone though nobody asked for that."""
    return f"its guest is gone from host {host}"


def find_report_refusal(
    report: GuestReport | ListedGuest, guest: Guest | None, *, agent_id: str, holds_host: bool
) -> tuple[Refusal | None, str]:
    """Return what a report's refusal means, and why it changes nothing; (None, "") if it may."""
    if not holds_host:
        return Refusal.NO_LEASE, f"host {report.host} is served by another agent"
    if guest is None:
        if report.state == "absent":
            return None, ""
        return Refusal.UNKNOWN, f"host {report.host} is asked for no such guest"
    if report.attempt < guest.attempt:
        refusal = Refusal.UNKNOWN if guest.agent_id is None else Refusal.SUPERSEDED
        return refusal, f"attempt {report.attempt} is over, {guest.attempt} is in force"
    if report.attempt > guest.attempt and report.state != "absent":
        return Refusal.UNKNOWN, f"attempt {report.attempt} is not known, {guest.attempt} is in force"
    if report.state == "begun" and guest.desired == "absent":
        return Refusal.UNKNOWN, "the guest is to be absent"
    if report.state in ("failed", "absent") and guest.agent_id not in (None, agent_id):
        return Refusal.UNKNOWN, "the guest is another agent's, who alone can say that it is gone"
    return None, ""


def _was_asked(guest: Guest, work: WorkState | None) -> bool:
    """Return whether somebody waits for the guest to be gone, or for its launch to end."""
    if guest.desired == "absent":
        return True
    return work is not None and (work.launches(guest.attempt) or work.waits_for_absence())


def _settle(
    outcome: ReportOutcome, works_by_server: dict[str, WorkState], guest: Guest, work: WorkState | None
) -> None:
    """Record that a guest is as it should be: a build is over, a move goes on, or the server has changed its state."""
    if work is None or (work.stage is Stage.SETTLE and not work.moving):
        outcome.changed[guest.server_id] = guest.host, guest.desired
    elif work.moving:
        if work.goes_on_with(guest.attempt):
            outcome.resumed.add(guest.server_id)
    elif work.launches(guest.attempt):
        outcome.active[guest.server_id] = guest.host
        works_by_server[guest.server_id] = replace(work, stage=Stage.SETTLE)


def _stay(outcome: ReportOutcome, report: GuestReport, guest: Guest, work: WorkState | None) -> None:
    """Record why a guest is not as it should be, if that is still desired: its action, or its move, is over.

    While memory is copied, one that has its NICs up is the source's: it does not send its memory.
    """
    if report.desired != guest.desired:
        return
    failure = Failure(message=report.message or f"the host could not make it {guest.desired}", host=guest.host)
    if work is None or (work.stage is Stage.SETTLE and not work.moving):
        outcome.unchanged[guest.server_id] = failure
    elif work.moving and (work.stage is Stage.STOP or (work.stage is Stage.COPY and guest.desired in NICS_UP)):
        outcome.kept[guest.server_id] = failure


def _let_go(
    outcome: ReportOutcome,
    works_by_server: dict[str, WorkState],
    report: GuestReport,
    guest: Guest,
    work: WorkState | None,
) -> None:
    """Record that the host has nothing of the guest left: a launch is retried elsewhere, a delete goes on."""
    if work is None:
        return
    if work.launches(guest.attempt):
        failed = report.state == "failed"
        message = report.message or ("the launch failed" if failed else "the guest vanished while it was launched")
        outcome.retreats[guest.server_id] = Retreat(Failure(message=message, host=guest.host), failed)
        works_by_server[guest.server_id] = replace(work, stage=Stage.RETRY)
    elif work.goes_on_with(guest.attempt):
        outcome.resumed.add(guest.server_id)
