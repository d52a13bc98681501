"""Which root disk a guest that is made goes on with. A disk is its server's, whatever attempt of it runs.

Source: Nova: a rebuild begins the disk anew, as an evacuation without shared disks does; nothing else does.
"""

from roost.compute.model.work import MoveKind, Plan
from roost.seams.guests import DiskKept


def find_disk_kept(
    host: str,
    *,
    begins_anew: bool,
    size_gb: int,
    kind: MoveKind | None = None,
    source_host: str | None = None,
    plan: Plan | None = None,
) -> DiskKept | None:
    """Return the disk that a guest on the host goes on with; None where it begins anew, or its server had none.

    begins_anew: its server never ran, or is rebuilt. kind, source_host, plan: of its server's open move, if any.
    A server that is on no host has no disk.
    """
    if plan is None:
        return None if begins_anew or not size_gb else DiskKept(host=host)
    if source_host is None or kind is MoveKind.UNSHELVE or not plan.old_spec.disk_gb:
        return None
    return DiskKept(host=source_host, needed=kind is not MoveKind.EVACUATE)
