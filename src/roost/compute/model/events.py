"""What happened to a server or a host, before it is known whose request led to it."""

from msgspec import Struct

from roost.compute.model.work import Cause
from roost.platform.events import Subject


class Occurrence(Struct, frozen=True, kw_only=True):
    """Something that happened: `roost.platform.events.Event` of one server, or of a host.

    by: the request that it follows from; None for the server's move, or else its creation, or for nobody's.
    """

    kind: str
    action: str = ""
    server_id: str | None = None
    host: str | None = None
    source_host: str | None = None
    reason: str = ""
    funnel: tuple[tuple[str, int], ...] = ()
    cause: Cause | None = None
    by: Subject | None = None
