"""Refuses requests for another revision than there is. Source: Network API, extension revision-if-match."""

from roost.network.errors import RevisionNumberConstraintFailed


def refuse_other_revision(title: str, resource_id: str, *, has: int, wanted: int | None) -> None:
    """Raise RevisionNumberConstraintFailed unless the resource has the wanted revision. wanted: None for any."""
    if wanted is not None and has != wanted:
        raise RevisionNumberConstraintFailed(f"{title} {resource_id} has revision {has}, not {wanted}.")
