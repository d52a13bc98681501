"""`roost-manage export-placement`: the way back. Reads both, writes what differs, and looks again."""

import os
from collections.abc import Callable

from roost.cli.asking.story_output import Bars
from roost.cli.keystone import credentials_of
from roost.cli.managing.export_report import Exported, print_report, report_json
from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.managing.placement_source import Progress, Source, read_placement
from roost.cli.managing.placement_target import Target
from roost.cli.tables import table_console
from roost.placement.model import LedgerState
from roost.placement.rules.exports import leave_out_unknown, plan_export, without_generations, without_port_claims
from roost.placement.rules.imports import list_differences
from roost.placement.service.imports import read_state
from roost.placement.service.ledger import Ledger


async def export_placement(
    target_url: str,
    source: LedgerTarget,
    *,
    token: str | None = None,
    ca_file: str | None = None,
    dry_run: bool = False,
    delete: bool = False,
    port_claims: bool = True,
    say: Callable[[str], None] | None = None,
) -> int:
    """Make the Placement at target_url as the ledger of `source`, report, and return the exit status.

    token: None for what the environment says. port_claims: False leaves out consumers that are ports. say: takes the
    report as JSON; None prints it for people.
    """
    credentials = None if token else credentials_of(os.environ)
    async with (
        open_existing(source, schemas=("placement",)) as database,
        Source.connect(target_url, token=token, credentials=credentials, ca_file=ca_file) as target,
    ):
        state_wanted = await read_state(Ledger(database))
        if not port_claims:
            state_wanted = without_port_claims(state_wanted)
        with Bars() as bars:
            exported = await export(target, state_wanted, bars.progress, dry_run=dry_run, delete=delete)
    if say is not None:
        say(report_json(exported).decode())
    else:
        print_report(table_console(), exported)
    return exported.exit_status


async def export(
    source: Source, state_wanted: LedgerState, progress: Progress, *, dry_run: bool, delete: bool
) -> Exported:
    """Write what differs, unless it is a dry run, and return what that did. Raises SourceRefused, KeystoneRefused."""
    target = Target(source, progress)
    target.check_version()
    present = (await read_placement(source, progress)).state
    state_wanted, left_out = leave_out_unknown(state_wanted, present)
    differences = list_differences(without_generations(state_wanted), without_generations(present))
    remaining = differences
    if differences and not dry_run:
        await target.write(plan_export(without_generations(state_wanted), without_generations(present), delete=delete))
        present = (await read_placement(source, progress)).state
        remaining = list_differences(without_generations(state_wanted), without_generations(present))
    return Exported(
        url=source.url,
        providers=len(state_wanted.providers),
        consumers=len(state_wanted.consumers),
        requests=source.requests,
        dry_run=dry_run,
        differences=differences,
        remaining=remaining,
        left_out=left_out,
        refusals=tuple(target.refusals),
    )
