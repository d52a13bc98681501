"""What is kept with each server of its ports: rebuilt from the ports, at once or a page at a time.

Nothing here changes a port, and no port is deleted for what is kept: whose a port is the network service knows.
"""

from collections.abc import Sequence

from msgspec import Struct

from roost.compute.rules import drift as rules
from roost.compute.service.context import Compute
from roost.compute.service.nics import ask_for_nics
from roost.compute.store import audit as store
from roost.compute.store import nics as nic_rows
from roost.seams.compute import ServerPort

PAGE = 500


class Healed(Struct, frozen=True, kw_only=True):
    """A server whose network info was not its ports. written: it is now; else somebody works on it, or on a dry run."""

    server_id: str
    name: str
    before: tuple[ServerPort, ...]
    after: tuple[ServerPort, ...]
    written: bool = False


class NetworkInfoHealer:
    """Goes through all servers, so many a round, and begins anew at their end."""

    def __init__(self, compute: Compute, *, repairs_max: int) -> None:
        self._compute = compute
        self._repairs_max = repairs_max
        self._after = ""

    async def heal_round(self) -> list[Healed]:
        """Rebuild what differs, of as many servers as one round may; the next one goes on behind them."""
        healed: list[Healed] = []
        while len(healed) < self._repairs_max:
            async with self._compute.database.connection() as connection:
                limit = min(PAGE, self._repairs_max - len(healed))
                ids = await store.list_quiet_ids(connection, after=self._after, limit=limit)
            self._after = ids[-1] if len(ids) == limit else ""
            healed += await heal_network_info(self._compute, ids)
            if not self._after:
                break
        return healed


async def list_server_ids(compute: Compute, *, after: str) -> list[str]:
    """Return a page of the servers that have network info to be compared, by id."""
    async with compute.database.connection() as connection:
        return await store.list_quiet_ids(connection, after=after, limit=PAGE)


async def find_differing(compute: Compute) -> list[Healed]:
    """Return the servers whose network info is not their ports, of the first page that has any."""
    ids = await list_server_ids(compute, after="")
    while ids:
        if differing := await heal_network_info(compute, ids, dry_run=True):
            return differing
        ids = await list_server_ids(compute, after=ids[-1])
    return []


async def heal_network_info(compute: Compute, server_ids: Sequence[str], *, dry_run: bool = False) -> list[Healed]:
    """Rebuild the network info of these servers where it is not their ports; return those where it was not.

    Servers that something works on are left out, and those whose ports are just changing: who does that writes it.
    """
    noticed = await compute.network.list_noticed_servers(server_ids)
    async with compute.database.connection() as connection:
        servers = await store.list_quiet(connection, [uuid for uuid in server_ids if uuid not in noticed])
    attached = await compute.network.list_attached_ports([server.id for server in servers])
    healed = []
    for server in servers:
        now = rules.network_information(server, rules.own_ports(server.project_id, attached.get(server.id, ())))
        if now == server.ports:
            continue
        written = False
        if not dry_run:
            async with compute.database.transaction() as tx:
                written = await nic_rows.set_network_info(tx, server.id, old=server.ports, new=now, quiet=True)
        healed.append(Healed(server_id=server.id, name=server.name, before=server.ports, after=now, written=written))
    await ask_for_nics(compute, [item.server_id for item in healed if item.written])
    return healed
