"""Servers that are to leave some hosts: how each stands, and what came of the moves that one request began."""

from collections.abc import Mapping

from msgspec import Struct

from roost.compute.model.server import Server
from roost.compute.model.work import MoveKind, ServerContext


class DepartureRow(Struct, frozen=True, kw_only=True):
    """A server that is on one of the hosts, is being built there, or was moved away and still has something there.

    host: that one of the hosts; host_down: nobody hears of it. move_kind: of the move that is open; own: the request
    began that move, or ends it. failures: moves of the request that failed; failure: why the last one did, failed_s:
    seconds since.
    """

    server_id: str
    host: str
    host_down: bool = False
    context: ServerContext
    move_kind: MoveKind | None = None
    own: bool = False
    failures: int = 0
    failure: str | None = None
    failed_s: float | None = None


class Departure(DepartureRow, frozen=True, kw_only=True):
    """The same with the server as it is.

    refusals: why a move of a kind cannot begin now, None where it can; confirm_refusal: why the open one cannot be
    confirmed.
    """

    server: Server
    refusals: Mapping[MoveKind, str | None]
    confirm_refusal: str | None = None
