"""The leases that agents hold on hosts: taken and renewed by their polls. `compute/leases.py` has the rules."""

from collections.abc import Sequence

from msgspec import Struct

from roost.compute.errors import HostHeld
from roost.compute.leases import Agent, HeldElsewhere, lease_times, list_held_elsewhere
from roost.compute.service.context import Compute
from roost.compute.store import leases as store
from roost.platform.errors import NotFound

HOSTS_BATCH_MAX = 1000


class Renewed(Struct, frozen=True, kw_only=True):
    """What an agent holds. as_of: the database's time, in seconds since 1970, when that was looked at."""

    held: tuple[str, ...]
    elsewhere: tuple[HeldElsewhere, ...]
    as_of: float


async def renew_leases(compute: Compute, names: Sequence[str], agent: Agent) -> Renewed:
    """Take or renew the agent's leases on these hosts, as far as no other agent has them; in sets.

    Raises NotFound, which names the hosts that do not exist, and HostHeld where there is none that it may have.
    """
    times = lease_times(compute.host_down_after_s)
    held: list[str] = []
    elsewhere: list[HeldElsewhere] = []
    as_of = 0.0
    for start in range(0, len(names), HOSTS_BATCH_MAX):
        batch = names[start : start + HOSTS_BATCH_MAX]
        async with compute.database.connection() as connection:
            leases_by_host, now_s = await store.renew_leases(connection, batch, agent, times)
        if missing := [name for name in batch if name not in leases_by_host]:
            raise NotFound(f"there is no host {', '.join(missing)}")
        refused = list_held_elsewhere(batch, leases_by_host, agent)
        elsewhere += refused
        names_refused = {item.host for item in refused}
        held += [name for name in batch if name not in names_refused]
        as_of = as_of or now_s
    if elsewhere and not held:
        more = f", and {len(elsewhere) - 1} more by others" if len(elsewhere) > 1 else ""
        raise HostHeld(elsewhere[0].sentence() + more)
    return Renewed(held=tuple(held), elsewhere=tuple(elsewhere), as_of=as_of)
