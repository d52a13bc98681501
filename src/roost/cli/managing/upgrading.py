"""`roost-manage db`: how far the database is between two releases, and the next step."""

from collections.abc import Sequence

import msgspec
from rich.console import Console

from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.plurals import many
from roost.cli.serving.roles import SCHEMAS
from roost.cli.tables import print_rows
from roost.platform.database import Database
from roost.platform.migrate import (
    OlderSession,
    SchemaState,
    bring_up_to_date,
    list_missing,
    list_older_sessions,
    read_states,
)

UP_TO_DATE, TO_EXPAND, TO_CONTRACT = 0, 3, 4
"""Exit statuses of `db check`."""

STATES = {UP_TO_DATE: "up-to-date", TO_EXPAND: "expand", TO_CONTRACT: "contract"}
ADVICE = {
    UP_TO_DATE: "Nothing is left to do.",
    TO_EXPAND: "To be expanded: `roost-manage db upgrade --expand` while the older release runs on, or "
    "`roost-manage db upgrade` once it is stopped.",
    TO_CONTRACT: "Expanded: both releases can run. Once no process of the older one is left, and nobody wants to go "
    "back: `roost-manage db upgrade`.",
}
EXPANDED_FOR_NEWER = "Expanded for a newer Roost: this release goes on beside it. The next step is the newer one's."


async def check(target: LedgerTarget, console: Console, *, as_json: bool) -> int:
    """Print how far each schema is, and who still uses an older release; returns the exit status."""
    async with open_existing(target) as database:
        states = await read_states(database, await _list_schemas(database))
        older = await list_older_sessions(database)
    status = status_of(states)
    if as_json:
        print(_check_json(states, older, status), flush=True)  # noqa: T201
        return status
    print_rows(console, ("schema", "oldest release", "to expand", "to contract"), map(_cells, states))
    if older:
        console.print()
        sessions = [(str(s.pid), s.client, s.release, f"{s.since:%Y-%m-%d %H:%M:%S}") for s in older]
        print_rows(console, ("pid", "from", "older release", "since"), sessions)
    for_newer = status == UP_TO_DATE and any(state.for_newer for state in states)
    console.print(EXPANDED_FOR_NEWER if for_newer else ADVICE[status], soft_wrap=True)
    return status


def _cells(state: SchemaState) -> tuple[str, ...]:
    if state.oldest is None:
        return state.schema, "missing", "the whole schema", ""
    contracts = ", ".join(state.contracts) or ("nothing but the way back" if state.to_contract else "")
    return state.schema, state.oldest, ", ".join(state.expands), contracts


def status_of(states: list[SchemaState]) -> int:
    """Return the exit status that the schemas together are worth."""
    if any(state.oldest is None or state.expands for state in states):
        return TO_EXPAND
    return TO_CONTRACT if any(state.to_contract for state in states) else UP_TO_DATE


async def upgrade(target: LedgerTarget, console: Console, *, expand: bool) -> None:
    """Make the next step, or both. expand: only the one beside which an older release goes on.

    Raises SchemaTooNew, SchemaTooOld, SchemaNotMade, OlderReleaseConnected.
    """
    async with open_existing(target) as database:
        before = await bring_up_to_date(database, await _list_schemas(database), contract=not expand)
    schemas_made = [state.schema for state in before if state.oldest is None]
    expanded = [name for state in before for name in state.expands]
    contracted = [] if expand else [name for state in before for name in state.contracts]
    closed = not expand and any(state.to_contract for state in before)
    if expanded:
        console.print(f"Expanded by {many(len(expanded), 'migration')}: {', '.join(expanded)}.", soft_wrap=True)
    if contracted:
        console.print(f"Contracted by {many(len(contracted), 'migration')}: {', '.join(contracted)}.", soft_wrap=True)
    if schemas_made:
        console.print(f"Made {many(len(schemas_made), 'schema')}: {', '.join(schemas_made)}.", soft_wrap=True)
    if closed:
        console.print("Older releases are refused from now on.")
    if not (schemas_made or expanded or contracted or closed):
        console.print("Nothing to do.")


async def _list_schemas(database: Database) -> Sequence[str]:
    """Return the schemas that this database is to have: that of a placement service alone has only its own."""
    missing = await list_missing(database, SCHEMAS)
    return SCHEMAS[:1] if missing == list(SCHEMAS[1:]) else SCHEMAS


def _check_json(states: list[SchemaState], older: list[OlderSession], status: int) -> str:
    schemas = [{**msgspec.structs.asdict(state), "to_contract": state.to_contract} for state in states]
    document = {"state": STATES[status], "schemas": schemas, "older_sessions": older}
    return msgspec.json.encode(document).decode()
