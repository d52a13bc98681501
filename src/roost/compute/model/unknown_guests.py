"""Guests that agents list and that the records do not know."""

from datetime import datetime

from msgspec import Struct

from roost.compute.model.cloud import Flavor
from roost.compute.model.server import QuietServer
from roost.compute.model.work import BuildOrder
from roost.seams.agent import ListedGuest
from roost.seams.compute import RequestSpec


class UnknownGuest(Struct, frozen=True, kw_only=True):
    """A guest that its host has, made by an attempt that no record knows.

    listed: what its agent says of it, None where it is of a version that says nothing. listed_at: when it was listed
    first. vcpus: of its host, 0 where there is no such host. destroying: its host is ordered to destroy it.
    server_known: there is a server of this id.
    """

    server_id: str
    host: str
    attempt: int
    listed_at: datetime
    listed: ListedGuest | None = None
    vcpus: int = 0
    destroying: bool = False
    server_known: bool = False


class AdoptedServer(QuietServer, frozen=True, kw_only=True):
    """What the records know of the server whose guest is adopted.

    working: work or a move is under way. hosts_running: other hosts that have a guest of it and are not known to have
    lost it. begun: it was made by an adoption that has not ended.
    """

    deleted: bool = False
    working: bool = False
    hosts_running: tuple[str, ...] = ()
    begun: bool = False


class NewAdoption(Struct, frozen=True, kw_only=True):
    """A server that is made of what its host's list says."""

    id: str
    name: str
    hostname: str
    project_id: str
    user_id: str
    flavor: Flavor
    spec: RequestSpec
    host: str
    order: BuildOrder
