"""`roost-manage audit`: says what has drifted between addresses, ports, claims, inventories and servers; puts it right.

Each wing audits its own, in the order in which what one puts right lets the next find right; it may run beside a Roost.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from roost.cli.audit_report import (
    CLEAN,
    DRIFT,
    REPAIRED,
    print_found,
    print_json,
    print_outcome,
    report_json,
)
from roost.cli.cloud_wiring import CloudParts
from roost.cli.ledger_target import LedgerTarget, TargetRefused, open_ledger
from roost.cli.roles import SCHEMAS
from roost.cli.settings import Settings, read_settings
from roost.compute.model import CHANNELS
from roost.compute.service import audit as compute_audit
from roost.compute.service import guests as compute_guests
from roost.network.service import audit as network_audit
from roost.placement.service.audit import audit_ledger
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Unrestricted
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.migrate import list_missing, list_outdated
from roost.platform.wakeup import Wakeups
from roost.seams.audit import Drift, Kind, Repairs

POOL_SIZE = 4
"""A port stays locked on one connection while the ledger works on another."""

ROUNDS_MAX = 5
"""A repair can show what was hidden: claims of a provider that was missing, say."""


class AuditRequest(Struct, frozen=True, kw_only=True):
    """What `audit` was asked for. confirm: asks the person at the terminal; None to go on without."""

    target: LedgerTarget
    config: Path | None = None
    repair: bool = False
    as_json: bool = False
    confirm: Callable[[], bool] | None = None


class Books(Struct, frozen=True):
    """What is audited. cloud: None where there is a ledger only."""

    ledger: Ledger
    cloud: CloudParts | None

    async def audit(self, repairs: Repairs) -> list[Drift]:
        """Everything once."""
        found = await audit_ledger(self.ledger, repairs=repairs)
        if self.cloud is not None:
            found += await network_audit.audit(self.cloud.networks, repairs=repairs)
            found += await compute_audit.audit(self.cloud.compute, repairs=repairs)
        return found


async def audit(asked: AuditRequest, console: Console) -> int:
    """Look, say, repair where that was asked for, say what came of it; returns the exit status.

    Raises TargetRefused where there is no database, no ledger, or one of another version of Roost.
    """
    settings = read_settings(asked.config)
    async with open_ledger(asked.target, create=False, pool_size=POOL_SIZE) as database:
        if database is None:
            raise TargetRefused(f"there is no database in {asked.target.data_dir}: give roost serve's --data-dir")
        books = await _open_books(database, settings)
        found = await books.audit(Repairs.NONE)
        if not asked.as_json:
            print_found(console, found, repair=asked.repair)
        if not found or not asked.repair or (asked.confirm is not None and not asked.confirm()):
            status = DRIFT if found else CLEAN
            if asked.as_json:
                print_json(console, report_json(found, None, None))
            return status
        repaired, left = await _repair(books)
    if asked.as_json:
        print_json(console, report_json(found, repaired, left))
    else:
        print_outcome(console, repaired, left)
    return DRIFT if left else REPAIRED


async def destroy_guest(target: LedgerTarget, server_id: str, host: str, *, config: Path | None) -> int:
    """Have a host destroy a guest that nobody asked for; returns the exit status.

    Raises TargetRefused, GuestNotFound, GuestWanted.
    """
    settings = read_settings(config)
    async with open_ledger(target, create=False, pool_size=POOL_SIZE) as database:
        books = None if database is None else await _open_books(database, settings)
        if books is None or books.cloud is None:
            raise TargetRefused(f"there are no hosts in the database of {target.database or target.data_dir}")
        await compute_guests.destroy_unknown_guest(books.cloud.compute, server_id, host)
    return CLEAN


async def _open_books(database: Database, settings: Settings) -> Books:
    """Raises TargetRefused where the database is not of this version of Roost."""
    missing = await list_missing(database, SCHEMAS)
    if "placement" in missing:
        raise TargetRefused("there is no ledger in the database")
    outdated = [schema for schema in await list_outdated(database, SCHEMAS) if schema not in missing]
    if outdated or len(missing) == 1:
        raise TargetRefused(
            f"the schemas {', '.join([*outdated, *missing])} of the database are not of this version of Roost: "
            "`roost serve` brings them up to date"
        )
    ledger = Ledger(database, Env(), settings.placement)
    await sync_standard_names(ledger)
    return Books(
        ledger, None if missing else CloudParts.wire(ledger, Wakeups(database, CHANNELS), settings, Unrestricted())
    )


async def _repair(books: Books) -> tuple[list[Drift], list[Drift]]:
    """What was put right, and what is left after that."""
    repaired: list[Drift] = []
    for _ in range(ROUNDS_MAX):
        found = await books.audit(Repairs.ALL)
        left = await books.audit(Repairs.NONE)
        # It comes right with its provider, which another wing publishes.
        followed = [drift for drift in found if drift.kind is Kind.ALLOCATION_UNBACKED and drift not in left]
        done = [drift for drift in found if drift.repaired] + followed
        repaired += done
        if not left or not done:
            break
    return repaired, left
