"""The operations of the network service: each function is one operation, on the `Networks` that it is given."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from roost.network.errors import RevisionNumberConstraintFailed
from roost.network.model.networks import Network, Segment, Subnet
from roost.network.model.ports import Port, PortRequest
from roost.network.settings import NetworkSettings
from roost.platform.batches import Batches
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.errors import NotFound, RoostError
from roost.platform.outbox import Outbox
from roost.platform.structs import copy_as
from roost.seams.audit import AuditedCompute, AuditedPlacement

Row = TypeVar("Row")
Revised = TypeVar("Revised", Network, Segment, Subnet, Port)
DEFAULT_PROJECT = "00000000-0000-0000-0000-00000000c10d"


@dataclass
class Networks:
    """What every operation of the network service works with.

    releasing: held by who calls the ledger within a transaction, since both need a connection of the pool.
    default_project: the owner of everything without authentication. creations: clients' ports that are made together.
    outbox: None where nobody is notified. recovery_seen: when the compute service was asked whether its records
    recover, and its answer.
    """

    database: Database
    env: Env
    placement: AuditedPlacement
    compute: AuditedCompute
    default_project: str = DEFAULT_PROJECT
    settings: NetworkSettings = field(default_factory=NetworkSettings)
    releasing: asyncio.Lock = field(default_factory=asyncio.Lock)
    creations: Batches[PortRequest, Port | RoostError] | None = None
    outbox: Outbox | None = None
    recovery_seen: tuple[datetime | None, str | None] = (None, None)

    def stamp(self, kind: type[Revised], requests: Sequence[Struct]) -> list[Revised]:
        """Return the requested resources, each with a new id and the time now. kind: that of the requests."""
        now = self.env.now()
        return [
            copy_as(kind, item, id=self.env.new_uuid(), revision=1, created_at=now, updated_at=now) for item in requests
        ]


def pick(rows: Sequence[Row], missing: type[NotFound], title: str, resource_id: str) -> Row:
    """Return the only row that was read. Raises `missing` if there is none."""
    if not rows:
        raise missing(f"{title} {resource_id} could not be found.")
    return rows[0]


def pick_revision(
    rows: Sequence[Revised], missing: type[NotFound], title: str, resource_id: str, revision: int | None
) -> Revised:
    """Return the only row that was read. Raises `missing`, RevisionNumberConstraintFailed. revision: None for any."""
    row = pick(rows, missing, title, resource_id)
    if revision not in (None, row.revision):
        raise RevisionNumberConstraintFailed(f"{title} {resource_id} has revision {row.revision}, not {revision}.")
    return row
