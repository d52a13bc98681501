"""Hosts that nobody declared: registered by agents with tokens, and disabled until an operator accepts them."""

from collections.abc import Sequence

from roost.compute.errors import NoHostWaiting
from roost.compute.model.cloud import Host
from roost.compute.rules.agent_tokens import HostPatterns, check_patterns
from roost.compute.rules.events import of_hosts
from roost.compute.service.context import Compute
from roost.compute.service.events import record, requested_now
from roost.compute.service.hosts import publish_hosts
from roost.compute.service.notifications import announce_hosts
from roost.compute.store import waiting_hosts as store
from roost.platform.database import reading


async def accept_hosts(compute: Compute, patterns: Sequence[str]) -> list[Host]:
    """Accept the waiting hosts of these names or patterns, so that they take servers; return them by name.

    Raises BadRequest for what is no pattern, and NoHostWaiting, which names the first that fits no waiting host.
    """
    check_patterns(patterns)
    async with compute.database.transaction() as tx:
        waiting = await store.list_waiting(tx)
        for pattern in patterns:
            if not any(map(HostPatterns((pattern,)).covers, waiting)):
                raise NoHostWaiting(f"no host that waits is called {pattern}: roost-manage host list --waiting")
        accepted = await store.accept(tx, list(filter(HostPatterns(patterns).covers, waiting)))
        await announce_hosts(compute, tx, "update", accepted)
        names = sorted(host.name for host in accepted)
        recorded = await record(tx, of_hosts("open", names, "an operator accepted it", by=requested_now()))
    recorded.tell()
    await publish_hosts(compute, names)
    return sorted(accepted, key=lambda host: host.name)


count_waiting_hosts = reading(store.count_waiting)
