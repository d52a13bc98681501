"""Projects have their turns: whose work a conductor leases first."""

from collections.abc import Iterable


def last_turn(after: str, project_ids: Iterable[str]) -> str:
    """Return the project of a batch that had its turn last.

    after: who had it last before the batch; the first project, in the order of bytes, follows the last one.
    """
    return max(project_ids, key=lambda project_id: (project_id <= after, project_id), default=after)
