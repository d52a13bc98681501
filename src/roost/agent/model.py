"""The words of the agent: what it is asked for, what it says, what it runs.

They are the agent API's bodies, and the agent's own: an agent may be older or newer than the Roost that it serves,
so a field that it does not know is ignored and one that is missing has a default.
"""

from typing import Any

from msgspec import Struct

GuestKey = tuple[str, str]
"""(server_id, host): one place where a server's guest can be."""


class GuestOrder(Struct, frozen=True, kw_only=True):
    """What a host is to do: have this guest running, or have it gone. desired: running or absent.

    ports: the server's NICs as the API gave them, for drivers that plug them in.
    """

    server_id: str
    host: str
    attempt: int
    desired: str
    name: str = ""
    vcpus: int = 0
    ram_mb: int = 0
    disk_gb: int = 0
    ports: tuple[dict[str, Any], ...] = ()

    @property
    def key(self) -> GuestKey:
        """Where the guest is, or is to be."""
        return (self.server_id, self.host)


class GuestReport(Struct, frozen=True, kw_only=True):
    """What became of a guest. state: begun, running, failed (nothing of it is left) or absent."""

    server_id: str
    host: str
    attempt: int
    state: str
    message: str = ""


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """Whether a report was taken; refused, it changed nothing.

    refusal: superseded (the server is elsewhere, or was made anew: the guest must go), no-lease (another agent serves
    the host: say it again once this one does), or unknown (the guest stays, and a person decides).
    """

    accepted: bool
    reason: str = ""
    refusal: str = ""


class HeldElsewhere(Struct, frozen=True, kw_only=True):
    """A host that another agent serves."""

    host: str
    holder: str = ""
    since: str = ""


class Polled(Struct, frozen=True, kw_only=True):
    """The answer to a poll.

    lease_s: for how long this agent may trust its leases, from held_s seconds after it asked. as_of: the API's time
    then, which the next list of guests names.
    """

    orders: tuple[GuestOrder, ...]
    elsewhere: tuple[HeldElsewhere, ...] = ()
    lease_s: float
    held_s: float
    as_of: float


class HostReport(Struct, frozen=True, kw_only=True):
    """What a host has, which physical networks it reaches and which cell it belongs to."""

    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    physical_networks: tuple[str, ...] = ()
    cell: str = "cell1"
    service_version: int = 3
