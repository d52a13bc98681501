"""Refuses requests for what there is not, or has another revision. Source: Network API, extension revision-if-match."""

from collections.abc import Sequence
from typing import TypeVar

from roost.network.errors import RevisionNumberConstraintFailed
from roost.network.model.networks import Network, Segment, Subnet
from roost.network.model.ports import Port
from roost.platform.errors import NotFound

Row = TypeVar("Row")
Revised = TypeVar("Revised", Network, Segment, Subnet, Port)


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
