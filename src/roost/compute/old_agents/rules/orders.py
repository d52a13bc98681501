"""Decides in which order a server is built: who makes its ports, who binds them, and when. A matter of facts alone.

The late order works with every agent that ever was; the early one, which is all that there is without old agents,
claims addresses before anything is built. Which stages an order has is said here, once: a stage asks what follows it,
never which order it is in.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from roost.compute.model.work import EARLY, BuildOrder, Credentials, Stage

LATE = BuildOrder(name="late", stages=(Stage.PLACE, Stage.ASK, Stage.LAUNCH))
"""The agent makes and binds the ports, with network credentials of its own."""
EARLY_CREATE = BuildOrder(name="early-create", stages=(Stage.CREATE_PORTS, Stage.PLACE, Stage.ASK, Stage.LAUNCH))
"""The conductor makes the ports, the agent binds them."""
ORDERS = (LATE, EARLY_CREATE, EARLY)

VERSION_BINDS = 2
"""Agents of this service version and later bind ports that they are given; those before make them too."""
VERSION_EARLY = 3
"""Agents of this service version and later take ports as they were bound for them."""
UNSAID = 0
"""The version of an agent that does not say one: those were of the release that knew the early order alone."""

FLAT = replace(EARLY, reason="its ports on flat networks are the conductor's to make, in every order")


def order_of(hosts_by_version: Mapping[int, int], credentials: Credentials) -> BuildOrder:
    """Return the order of a build that begins now, with the reason.

    hosts_by_version: service version -> how many live hosts have an agent of it. Without any host there is nothing that
    an order could fail on.
    """
    if not credentials.usable:
        return replace(LATE, reason=f"the conductor has no network credentials: {credentials.reason}")
    oldest = min((version or VERSION_EARLY for version, hosts in hosts_by_version.items() if hosts), default=None)
    if oldest is None or oldest >= VERSION_EARLY:
        return EARLY
    order = LATE if oldest < VERSION_BINDS else EARLY_CREATE
    version = VERSION_BINDS if order is LATE else VERSION_EARLY
    return replace(order, reason=older_agents(count_hosts_below(hosts_by_version, version), below=version))


def version_wanted(order: BuildOrder) -> int | None:
    """Return from which service version on agents would let servers be built in the next order; None: in the last."""
    return {LATE.name: VERSION_BINDS, EARLY_CREATE.name: VERSION_EARLY}.get(order.name)


def count_hosts_below(hosts_by_version: Mapping[int, int], version: int) -> int:
    """Return how many live hosts have an agent of a service version below that."""
    return sum(count for agents, count in hosts_by_version.items() if UNSAID < agents < version)


def older_agents(hosts: int, *, below: int) -> str:
    """Return in words that so many live hosts have older agents."""
    has = "1 live host has an agent" if hosts == 1 else f"{hosts} live hosts have agents"
    return f"{has} of a service version below {below}"
