"""Decides who serves a host: one agent holds the lease on it, until the host was not heard of for too long.

The lease is renewed by each poll. A guest belongs to the agent that began it, or lists it; nobody else can say that it
is gone, so an address is not used again while the guest that has it may still run.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

POLL_SHARE = 0.8
"""How much of a lease a poll may be held for."""
RENEW_SHARE = 1 / 6
"""A lease is written anew when so much of it has passed, so that busy polls do not write."""
RENEW_AFTER_MAX_S = 5.0


class Agent(Struct, frozen=True, kw_only=True):
    """An agent instance: its id stays with its guests over restarts; label: what people know it by."""

    id: str
    label: str = ""


class HostLease(Struct, frozen=True, kw_only=True):
    """Who holds the lease on a host. holder: None for nobody; ran_out: anybody may take it."""

    host: str
    holder: Agent | None
    since: datetime | None
    ran_out: bool


class HeldElsewhere(Struct, frozen=True, kw_only=True):
    """A host that another agent serves. since: ISO 8601."""

    host: str
    holder: str
    since: str

    def sentence(self) -> str:
        """Return it in words."""
        return f"host {self.host} is served by agent {self.holder} since {self.since}"


class LeaseTimes(Struct, frozen=True, kw_only=True):
    """The times of a lease, in seconds.

    run_out: a lease that was not written for so long passes on. renew_after: an older one is written anew.
    told: for how long an agent may trust a lease that was just looked at. poll_max: how long a poll may be held.
    """

    run_out: float
    renew_after: float
    told: float
    poll_max: float


def lease_times(host_down_after_s: float) -> LeaseTimes:
    """Return the times that follow from when a host counts as down."""
    renew_after = min(RENEW_AFTER_MAX_S, host_down_after_s * RENEW_SHARE)
    told = host_down_after_s - renew_after
    return LeaseTimes(run_out=host_down_after_s, renew_after=renew_after, told=told, poll_max=told * POLL_SHARE)


def list_held_elsewhere(
    names: Sequence[str], leases_by_host: Mapping[str, HostLease], agent: Agent
) -> list[HeldElsewhere]:
    """Return the hosts that `agent` does not hold, in order.

    leases_by_host: as read when `agent` took or renewed what it could. One of its own that has run out was taken by
    another agent at that very moment.
    """
    elsewhere = []
    for name in names:
        lease = leases_by_host[name]
        if lease.holder is None or (lease.holder.id == agent.id and lease.ran_out):
            elsewhere.append(HeldElsewhere(host=name, holder="that came at the same time", since="just now"))
        elif lease.holder.id != agent.id:
            since = "an unknown time" if lease.since is None else lease.since.isoformat(timespec="seconds")
            holder = f"{lease.holder.id} ({lease.holder.label or 'no label'})"
            elsewhere.append(HeldElsewhere(host=name, holder=holder, since=since))
    return elsewhere
