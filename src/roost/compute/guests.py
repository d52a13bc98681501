"""What an agent's reports mean for guests, servers and work: the fence between hosts and the pipeline.

It decides; `service/guests.py` locks, reads and writes, and the conductor carries on with what comes out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from roost.compute.model import Failure, GuestReport, Stage

GuestKey = tuple[str, str]
"""(server_id, host)."""

WAITING = (Stage.DELETE, Stage.FAIL)
"""Stages that wait until no host has a guest of the server."""


class Guest(Struct, frozen=True, kw_only=True):
    """A guest row: what a host should run, or let go of."""

    server_id: str
    host: str
    attempt: int
    desired: str


class WorkState(Struct, frozen=True, kw_only=True):
    """What of a work row decides about a report."""

    server_id: str
    stage: Stage
    attempt: int
    deleting: bool

    def launches(self, attempt: int) -> bool:
        """Whether the pipeline waits for the outcome of this very attempt, and still wants it."""
        return self.stage is Stage.LAUNCH and self.attempt == attempt and not self.deleting

    def waits_for_absence(self) -> bool:
        """Whether the pipeline goes on as soon as a host has let go of the server."""
        return self.stage in WAITING or self.deleting


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """What becomes of one report. Refused: nothing changed; reason: a sentence, empty when accepted."""

    server_id: str
    host: str
    accepted: bool
    reason: str = ""


class KnownGuest(Struct, frozen=True, kw_only=True):
    """A guest that an agent says it has."""

    server_id: str
    host: str
    attempt: int


class Retreat(Struct, frozen=True):
    """A launch is over without a guest. counts: it was a failure, and one attempt is used up."""

    failure: Failure
    counts: bool


@dataclass(frozen=True)
class ReportOutcome:
    """What a set of reports changes; answers: one for each report, in order.

    begun, running, gone: guest rows to mark or to delete. active: server id -> the host it runs on, its work settles.
    retreats: server id -> why its work goes to retry. resumed: servers whose work waits no longer.
    """

    answers: list[ReportAnswer] = field(default_factory=list)
    begun: set[GuestKey] = field(default_factory=set)
    running: set[GuestKey] = field(default_factory=set)
    gone: set[GuestKey] = field(default_factory=set)
    active: dict[str, str] = field(default_factory=dict)
    retreats: dict[str, Retreat] = field(default_factory=dict)
    resumed: set[str] = field(default_factory=set)

    @property
    def moves_work(self) -> bool:
        """Whether a conductor has something to do now."""
        return bool(self.active or self.retreats or self.resumed)


def decide_reports(
    reports: Sequence[GuestReport], *, guests: Iterable[Guest], works: Iterable[WorkState]
) -> ReportOutcome:
    """Take or refuse each report, in order: a later one sees what an earlier one changed.

    guests, works: the locked rows of the servers that are reported on; a missing one does not exist.
    """
    outcome = ReportOutcome()
    guests_by_key = {(guest.server_id, guest.host): guest for guest in guests}
    works_by_server = {work.server_id: work for work in works}
    for report in reports:
        key = (report.server_id, report.host)
        guest = guests_by_key.get(key)
        reason = _refusal(report, guest)
        if not reason and guest is not None:
            work = works_by_server.get(report.server_id)
            if report.state == "begun":
                outcome.begun.add(key)
            elif report.state == "running":
                outcome.running.add(key)
                _settle(outcome, works_by_server, guest, work)
            else:
                del guests_by_key[key]
                outcome.gone.add(key)
                _let_go(outcome, works_by_server, report, guest, work)
        outcome.answers.append(
            ReportAnswer(server_id=report.server_id, host=report.host, accepted=not reason, reason=reason)
        )
    outcome.begun.difference_update(outcome.running, outcome.gone)
    outcome.running.difference_update(outcome.gone)
    return outcome


def unknown_guests(listed: Sequence[KnownGuest], *, attempts_by_guest: Mapping[GuestKey, int]) -> list[KnownGuest]:
    """Those of a host's guests that nothing asks for any more: no guest row, or one of a higher attempt."""
    unknown = []
    for guest in listed:
        attempt = attempts_by_guest.get((guest.server_id, guest.host))
        if attempt is None or guest.attempt < attempt:
            unknown.append(guest)
    return unknown


def missing_names(names: Sequence[str], known: Collection[str]) -> list[str]:
    """The names that are not known, in order."""
    return [name for name in names if name not in known]


def _refusal(report: GuestReport, guest: Guest | None) -> str:
    """Why a report changes nothing; empty if it may."""
    if guest is None:
        return "" if report.state == "absent" else f"host {report.host} is asked for no such guest"
    if report.attempt < guest.attempt:
        return f"attempt {report.attempt} is over, {guest.attempt} is in force"
    if report.attempt > guest.attempt and report.state != "absent":
        return f"attempt {report.attempt} is not known, {guest.attempt} is in force"
    if report.state == "begun" and guest.desired != "running":
        return "the guest is to be absent"
    return ""


def _settle(
    outcome: ReportOutcome, works_by_server: dict[str, WorkState], guest: Guest, work: WorkState | None
) -> None:
    if guest.desired == "running" and work is not None and work.launches(guest.attempt):
        outcome.active[guest.server_id] = guest.host
        works_by_server[guest.server_id] = _moved(work, Stage.SETTLE)


def _let_go(
    outcome: ReportOutcome,
    works_by_server: dict[str, WorkState],
    report: GuestReport,
    guest: Guest,
    work: WorkState | None,
) -> None:
    """The host has nothing of the guest left: a launch is retried elsewhere, a delete goes on."""
    if work is None:
        return
    if work.launches(guest.attempt):
        failed = report.state == "failed"
        message = report.message or ("the launch failed" if failed else "the guest vanished while it was launched")
        outcome.retreats[guest.server_id] = Retreat(Failure(message=message, host=guest.host), failed)
        works_by_server[guest.server_id] = _moved(work, Stage.RETRY)
    elif work.waits_for_absence():
        outcome.resumed.add(guest.server_id)


def _moved(work: WorkState, stage: Stage) -> WorkState:
    return WorkState(server_id=work.server_id, stage=stage, attempt=work.attempt, deleting=work.deleting)
