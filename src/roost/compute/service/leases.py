"""The leases that agents hold on hosts: taken and renewed by their polls. `compute/leases.py` has the rules."""

from collections.abc import Sequence

from msgspec import Struct

from roost.compute.errors import HostHeld
from roost.compute.leases import Agent, HeldElsewhere, list_held_elsewhere
from roost.compute.service.context import Compute
from roost.compute.store import leases as store
from roost.platform.errors import NotFound

HOSTS_BATCH_MAX = 1000


class Renewed(Struct, frozen=True, kw_only=True):
    """What an agent holds. behind: hosts that are back, which is still to be published.

    as_of: the database's time, in seconds since 1970, when that was looked at.
    """

    held: tuple[str, ...] = ()
    elsewhere: tuple[HeldElsewhere, ...] = ()
    behind: tuple[str, ...] = ()
    as_of: float = 0.0


async def renew_leases(compute: Compute, names: Sequence[str], agent: Agent) -> Renewed:
    """Take or renew the agent's leases on these hosts, as far as no other agent has them; in sets.

    Raises NotFound, which names the hosts that do not exist, and HostHeld where there is none that it may have.
    """
    held: list[str] = []
    elsewhere: list[HeldElsewhere] = []
    behind: list[str] = []
    as_of = 0.0
    for start in range(0, len(names), HOSTS_BATCH_MAX):
        batch = names[start : start + HOSTS_BATCH_MAX]
        async with compute.database.connection() as connection:
            read = await store.renew_leases(connection, batch, agent, renew_after_s=compute.settings.heard_again_s)
        held += [lease.host for lease in read.leases if lease.held]
        elsewhere += list_held_elsewhere(read.leases, agent)
        behind += read.behind
        as_of = as_of or read.now_s
    known = {*held, *(item.host for item in elsewhere)}
    if missing := [name for name in names if name not in known]:
        raise NotFound(f"there is no host {', '.join(missing)}")
    if elsewhere and not held:
        more = f", and {len(elsewhere) - 1} more by others" if len(elsewhere) > 1 else ""
        raise HostHeld(elsewhere[0].sentence() + more)
    return Renewed(held=tuple(held), elsewhere=tuple(elsewhere), behind=tuple(behind), as_of=as_of)
