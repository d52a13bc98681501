"""`roost-manage import-placement`: reads another Placement, compares, writes what differs, and reports."""

import os

from roost.cli.asking.story_output import Bars
from roost.cli.keystone import credentials_of
from roost.cli.managing.import_report import exit_status, print_report, report_json
from roost.cli.managing.ledger_target import LedgerTarget, open_ledger
from roost.cli.managing.placement_source import Source, read_placement
from roost.cli.tables import table_console
from roost.placement.service.imports import compare_ledger, import_ledger
from roost.placement.service.ledger import Ledger


async def import_placement(
    source_url: str,
    target: LedgerTarget,
    *,
    token: str | None = None,
    ca_file: str | None = None,
    dry_run: bool = False,
    delete: bool = False,
    overwrite: bool = False,
    as_json: bool = False,
) -> int:
    """Read, compare, write, report; returns the exit status. token: None for what the environment says.

    The source is asked first, so that no database is made for one that does not answer.
    """
    credentials = None if token else credentials_of(os.environ)
    async with (
        Source.connect(source_url, token=token, credentials=credentials, ca_file=ca_file) as source,
        open_ledger(target, create=not dry_run) as database,
    ):
        ledger = None if database is None else Ledger(database)
        with Bars() as bars:
            read = await read_placement(source, bars.progress)
        if dry_run or ledger is None:
            imported = await compare_ledger(ledger, read.state, delete=delete, overwrite=overwrite)
        else:
            imported = await import_ledger(ledger, read.state, delete=delete, overwrite=overwrite)
    if as_json:
        print(report_json(source_url, read, imported, dry_run=dry_run).decode(), flush=True)  # noqa: T201
    else:
        print_report(table_console(), read, imported, dry_run=dry_run)
    return exit_status(read, imported, dry_run=dry_run)
