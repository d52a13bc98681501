"""`roost-manage audit`: finds what has drifted between addresses, ports, claims, inventories and servers; repairs it.

Each wing audits its own, in an order in which no wing depends on what a later one repairs. Roost may run meanwhile.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct
from rich.console import Console

from roost.cli.managing.audit_report import (
    CLEAN,
    DRIFT,
    REPAIRED,
    UNREAD,
    print_drifts,
    print_gaps,
    print_json,
    print_outcome,
    print_promises,
    print_unread,
    report_json,
)
from roost.cli.managing.ledger_target import LedgerTarget, TargetRefused, open_existing, outdated
from roost.cli.serving.cloud_wiring import CloudParts
from roost.cli.serving.neutron import make_neutron
from roost.cli.serving.roles import SCHEMAS
from roost.cli.settings import read_settings
from roost.compute.model.work import CHANNELS
from roost.compute.service import Compute
from roost.compute.service import audit as compute_audit
from roost.compute.service.hosts import count_promising
from roost.network.service import audit as network_audit
from roost.network.service.views import list_gaps
from roost.placement.rules.drift import ALLOCATION_UNBACKED
from roost.placement.service import audit as ledger_audit
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Unrestricted
from roost.platform.drift import Drift, Repairs
from roost.platform.env import Env
from roost.platform.migrate import list_missing, list_outdated
from roost.platform.wakeup import Wakeups
from roost.seams.neutron import NeutronUnavailable

POOL_SIZE = 4
"""A port stays locked on one connection while the ledger works on another."""

ROUNDS_MAX = 5
"""A repair can show what was hidden: claims of a provider that was missing, say."""


class Records(Struct, frozen=True):
    """What is audited. cloud: None where there is a ledger only."""

    ledger: Ledger
    cloud: CloudParts | None

    async def audit(self, repairs: Repairs) -> list[Drift]:
        """Return the drift of all wings, each audited once."""
        drifts = await ledger_audit.AUDIT.run(self.ledger, repairs=repairs)
        if self.cloud is not None:
            drifts += await network_audit.AUDIT.run(self.cloud.networks, repairs=repairs)
            drifts += await compute_audit.AUDIT.run(self.cloud.compute, repairs=repairs)
        return drifts


async def audit(
    target: LedgerTarget,
    console: Console,
    *,
    repair: bool = False,
    as_json: bool = False,
    confirm: Callable[[], bool] | None = None,
) -> int:
    """Find drift, print it, repair it where that is asked for, print the outcome; returns the exit status.

    confirm: asks the person at the terminal; None to go on without. Raises TargetRefused where there is no database, no
    ledger, or one of another version of Roost.
    """
    try:
        return await _audit(target, console, repair=repair, as_json=as_json, confirm=confirm)
    except NeutronUnavailable as error:
        print_unread(console, error, as_json=as_json)
        return UNREAD


async def _audit(
    target: LedgerTarget,
    console: Console,
    *,
    repair: bool,
    as_json: bool,
    confirm: Callable[[], bool] | None,
) -> int:
    async with open_records(target) as records:
        drifts = await records.audit(Repairs.NONE)
        gaps = [] if records.cloud is None else await list_gaps(records.cloud.networks)
        promising = (0, 0) if records.cloud is None else await count_promising(records.cloud.compute)
        if not as_json:
            print_drifts(console, drifts, repair=repair)
            print_gaps(console, gaps)
            print_promises(console, *promising)
        if not drifts or not repair or (confirm is not None and not confirm()):
            if as_json:
                print_json(console, report_json(drifts, None, None, gaps, promising))
            return DRIFT if drifts else CLEAN
        repaired, remaining = await _repair(records)
    if as_json:
        print_json(console, report_json(drifts, repaired, remaining, gaps, promising))
    else:
        print_outcome(console, drifts, repaired, remaining)
    return DRIFT if remaining else REPAIRED


@asynccontextmanager
async def open_records(target: LedgerTarget) -> AsyncIterator[Records]:
    """Yield the records of the target's database. Raises TargetRefused where it is not of this version of Roost."""
    settings = read_settings(target.config)
    settings = settings.with_quotas(keystone=settings.has_keystone)
    async with open_existing(target, pool_size=POOL_SIZE) as database:
        missing = await list_missing(database, SCHEMAS)
        if "placement" in missing:
            raise TargetRefused("there is no ledger in the database")
        others = [schema for schema in await list_outdated(database, SCHEMAS) if schema not in missing]
        if others or 0 < len(missing) < len(SCHEMAS) - 1:
            raise outdated([*others, *missing])
        ledger = Ledger(database, Env(), settings.placement)
        await sync_standard_names(ledger)
        neutron = None
        if missing and (settings.neutron.url or settings.serve.with_neutron):
            ledger.neutron = neutron = make_neutron(settings)
            ledger.claim_grace_s = settings.neutron.claim_grace_s
            ledger.neutron_zones = settings.neutron.zone_by_segment
        cloud = CloudParts.wire(ledger, Wakeups(database, CHANNELS), settings, Unrestricted()) if not missing else None
        try:
            yield Records(ledger, cloud)
        finally:
            if cloud is not None:
                await cloud.close()
            if neutron is not None:
                await neutron.close()


@asynccontextmanager
async def open_compute(target: LedgerTarget) -> AsyncIterator[Compute]:
    """Yield the compute service on the target's records. Raises TargetRefused."""
    async with open_records(target) as records:
        if records.cloud is None:
            raise TargetRefused("there are no hosts in the database")
        yield records.cloud.compute


async def _repair(records: Records) -> tuple[list[Drift], list[Drift]]:
    """Return what was repaired, and what remains."""
    repaired: list[Drift] = []
    for _ in range(ROUNDS_MAX):
        drifts = await records.audit(Repairs.ALL)
        remaining = await records.audit(Repairs.NONE)
        # An allocation without inventory comes right with its provider, which another wing publishes.
        unbacked = [drift for drift in drifts if drift.kind is ALLOCATION_UNBACKED]
        done = [drift for drift in drifts if drift.repaired] + [drift for drift in unbacked if drift not in remaining]
        repaired += done
        if not remaining or not done:
            break
    return repaired, remaining
