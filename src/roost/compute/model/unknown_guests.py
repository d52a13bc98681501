"""Guests that agents list and that the records do not know."""

from datetime import datetime

from msgspec import Struct

from roost.seams.agent import ListedGuest


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
