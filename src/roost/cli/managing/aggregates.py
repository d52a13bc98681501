"""`roost-manage sync_placement_aggregates` and `set_allocation_ratio`: what operators do to host aggregates here."""

import msgspec
from rich.console import Console

from roost.cli.asking.story_output import Bars
from roost.cli.managing.audit import open_compute
from roost.cli.managing.ledger_target import LedgerTarget, TargetRefused
from roost.cli.plurals import many
from roost.cli.tables import print_rows
from roost.compute.model.cloud import HostAggregate
from roost.compute.rules.aggregate_sync import SyncReport
from roost.compute.rules.aggregates import RATIO_KEYS
from roost.compute.service.aggregate_sync import sync_aggregates
from roost.compute.service.aggregates import list_host_aggregates
from roost.compute.service.operator_aggregates import update_aggregate


async def sync(
    target: LedgerTarget,
    console: Console,
    *,
    prune: bool,
    dry_run: bool,
    hosts: list[str],
    aggregates: list[str],
    verbose: bool,
    as_json: bool,
) -> int:
    """Make placement mirror the host aggregates and print what was done; returns the exit status."""
    async with open_compute(target) as compute:
        with Bars() as bars:
            report = await sync_aggregates(
                compute, prune=prune, dry_run=dry_run, hosts=hosts, aggregates=aggregates, progress=bars.progress
            )
    if as_json:
        answer = {"exit_status": int(report.status), **msgspec.to_builtins(report)}
        print(msgspec.json.encode(answer).decode(), flush=True)  # noqa: T201
    else:
        print_report(console, report, verbose=verbose)
    return int(report.status)


def print_report(console: Console, report: SyncReport, *, verbose: bool) -> None:
    """Print each host that differs if verbose, or on a dry run, what could not be done, and one sentence last."""
    if report.changes and (verbose or report.dry_run):
        rows = [(change.host, ", ".join(change.joins), ", ".join(change.leaves)) for change in report.changes]
        print_rows(console, ("host", "joins", "leaves"), rows)
    for problem in report.problems:
        console.print(f"{problem.host}: {problem.reason}")
    would = "would be " if report.dry_run else ""
    count = len(report.changes)
    if report.failure is not None:
        console.print(f"Placement could not be asked or told: {report.failure}")
        console.print(f"Of {many(count, 'host')} to be written some may be: run it again.")
        return
    console.print(f"{many(count, 'host') if count else 'No host'} {would}written.")
    if report.others:
        console.print(f"{many(report.others, 'provider')} of no host {would}taken out of deleted aggregates.")
    if report.stale:
        console.print(
            f"{many(report.stale, 'membership')} in placement that no host aggregate has: --prune removes them."
        )


async def set_ratio(
    target: LedgerTarget,
    console: Console,
    *,
    aggregate: str,
    resource_class: str,
    ratio: float | None,
) -> int:
    """Set, or with None unset, the allocation ratio of an aggregate's members; returns the exit status."""
    async with open_compute(target) as compute:
        host_aggregate = _find(await list_host_aggregates(compute), aggregate)
        metadata = {RATIO_KEYS[resource_class]: None if ratio is None else f"{ratio:.6f}".rstrip("0").rstrip(".")}
        changed = await update_aggregate(compute, host_aggregate.id, metadata=metadata)
    ratio_text = "the default again" if ratio is None else f"{ratio:g}"
    console.print(f"{resource_class} of aggregate {changed.name}: {ratio_text}, on {many(len(changed.hosts), 'host')}.")
    return 0


def _find(aggregates: list[HostAggregate], named: str) -> HostAggregate:
    for aggregate in aggregates:
        if named in (aggregate.uuid, aggregate.name, str(aggregate.id)):
            return aggregate
    raise TargetRefused(f"--aggregate {named}: there is no such host aggregate")
