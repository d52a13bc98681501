"""Decides whether a request still speaks of what it has read. Source: Network API, extension revision-if-match."""

from roost.network.errors import RevisionNumberConstraintFailed


def refuse_other_revision(title: str, resource_id: str, *, has: int, wanted: int | None) -> None:
    """Raise RevisionNumberConstraintFailed unless it has the revision that the request insists on; None: any."""
    if wanted is not None and has != wanted:
        raise RevisionNumberConstraintFailed(f"{title} {resource_id} has revision {has}, not {wanted}.")
