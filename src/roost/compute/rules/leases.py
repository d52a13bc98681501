"""Decides who serves a host: one agent holds the lease on it, until the host falls silent.

The lease is renewed by each poll; `silence.py` decides when a host is silent. A guest belongs to the agent that began
it, or lists it; nobody else can say that it is gone (R25). `agents.py` decides whose word an agent's is.
"""

from collections.abc import Iterable

from roost.compute.model.cloud import HostLease
from roost.seams.agent import AgentIdentity, HeldElsewhere


def list_held_elsewhere(
    leases: Iterable[HostLease], agent: AgentIdentity, *, host_down_after_s: float
) -> list[HeldElsewhere]:
    """Return the hosts that `agent` does not hold, in order; a lease ends when its host is noted as silent.

    Where the holder is nobody, or the agent itself, another agent took the host at that very moment. Agents are named
    by their labels: whoever is refused need not know their ids.
    """
    elsewhere = []
    for lease in leases:
        if lease.taken:
            continue
        holder, since = "that came at the same time", "just now"
        if lease.holder is not None and lease.holder.id != agent.id:
            holder = lease.holder.label or "without a label"
            since = "an unknown time" if lease.since is None else lease.since.isoformat(timespec="seconds")
        ends_in_s = None if lease.heard_s is None else max(host_down_after_s - lease.heard_s, 0.0)
        elsewhere.append(HeldElsewhere(host=lease.host, holder=holder, since=since, ends_in_s=ends_in_s))
    return elsewhere
