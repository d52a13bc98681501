"""`roost-manage adopt`: one round with the Neutron beside the ledger, its report and its exit status."""

import msgspec
from rich.console import Console

from roost.cli.managing.audit_report import UNREAD, drift_document, print_drifts, print_json, print_unread
from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.plurals import many
from roost.cli.serving.neutron import make_neutron
from roost.cli.settings import read_settings
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron import Round, run_round
from roost.placement.service.neutron_view import NeutronView
from roost.platform.env import Env
from roost.seams.neutron import GET_SEGMENT, GET_SEGMENT_ID, NeutronPartial, NeutronUnavailable

ADOPTED, DIFFERS, NOTHING_TO_DO, INCOMPLETE = 0, 3, 4, 6
POOL_SIZE = 4


async def adopt(
    target: LedgerTarget,
    console: Console,
    *,
    dry_run: bool = False,
    as_json: bool = False,
) -> int:
    """Run one round with Neutron, print what differed; returns the exit status.

    Raises BadRequest for a configuration without Neutron, TargetRefused where there is no ledger of this version.
    """
    settings = read_settings(target.config)
    neutron = make_neutron(settings)
    try:
        async with open_existing(target, pool_size=POOL_SIZE, schemas=("placement",)) as database:
            ledger = Ledger(database, Env(), settings.placement)
            await sync_standard_names(ledger)
            view = NeutronView(grace_s=settings.neutron.claim_grace_s, zones=settings.neutron.zone_by_segment)
            done = await run_round(ledger, neutron, view, dry_run=dry_run)
            if not done.segments:
                raise NeutronPartial(f"Neutron shows {neutron.who_asks()} no segment", GET_SEGMENT, GET_SEGMENT_ID)
    except NeutronUnavailable as error:
        print_unread(console, error, as_json=as_json)
        return UNREAD
    finally:
        await neutron.close()
    status = exit_status(done, dry_run=dry_run)
    if as_json:
        print_json(console, round_json(done, dry_run=dry_run))
    else:
        _print_round(console, done, dry_run=dry_run)
    return status


def exit_status(done: Round, *, dry_run: bool) -> int:
    """Return the exit status of a round; nothing done differs from done."""
    if not done.drifts:
        return NOTHING_TO_DO
    if dry_run:
        return DIFFERS
    return ADOPTED if all(drift.repaired for drift in done.drifts) else INCOMPLETE


def round_json(done: Round, *, dry_run: bool) -> bytes:
    """Return every difference, and what was read."""
    return msgspec.json.encode(
        {
            "dry_run": dry_run,
            "segments": done.segments,
            "ports": done.ports,
            "unpublished": done.unpublished,
            "found": [{**drift_document(drift), "written": drift.repaired} for drift in done.drifts],
        }
    )


def _print_round(console: Console, done: Round, *, dry_run: bool) -> None:
    console.print(f"Neutron has {many(done.ports, 'port')} and {many(done.segments, 'segment')}.")
    if not done.drifts:
        console.print("The ledger agrees: there is nothing to do.")
    else:
        print_drifts(console, done.drifts, repair=not dry_run)
    if not dry_run and done.drifts:
        drifts_left = [drift for drift in done.drifts if not drift.repaired]
        written = len(done.drifts) - len(drifts_left)
        console.print(
            f"{written:,} written, {len(drifts_left):,} left." + (" Run it again for these." if drifts_left else "")
        )
    for subnet, reason in done.sight.subnets_of_others.items():
        console.print(f"Subnet {subnet} is no room for servers: {reason}.")
    for segment in done.unpublished:
        console.print(f"Neutron has not published segment {segment}: its addresses are not counted.")
