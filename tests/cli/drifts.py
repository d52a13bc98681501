"""A small cloud where everything agrees, and all the ways in which its books can be made to drift by hand."""

import io
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from rich.console import Console
from tests.conductor.world import World
from tests.network.cloud import PROJECT

from roost.cli.managing.audit import audit
from roost.cli.managing.ledger_target import LedgerTarget
from roost.compute.rules.drift import (
    HOST_WRONG,
    MIRROR_WRONG,
    SERVER_CLAIM_STRAY,
    SERVER_CLAIM_WRONG,
    SERVER_PORTS_WRONG,
)
from roost.compute.service import audit as compute_audit
from roost.network.model.ports import PortRequest
from roost.network.rules.drift import (
    ADDRESS_STRAY,
    ADDRESS_WRONG,
    AGGREGATE_STRAY,
    AGGREGATE_WRONG,
    FLAT_CLAIM_WRONG,
    FREE_WRONG,
    PORT_CLAIM_IDLE,
    PORT_CLAIM_LARGE,
    PORT_CLAIM_SMALL,
    PORT_CLAIM_STRAY,
    PORT_LATE,
    PORT_RESERVED,
    PORT_STRAY,
    PORT_UNOWNED,
    PROVIDER_STRAY,
    PROVIDER_WRONG,
)
from roost.network.service import audit as network_audit
from roost.network.service import ports
from roost.placement.rules.drift import ALLOCATION_STRAY, ALLOCATION_UNBACKED, CONSUMER_EMPTY, ROOT_WRONG, USE_WRONG
from roost.placement.service import audit as ledger_audit
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.drift import Kind
from roost.platform.env import Env

NOBODY = "99999999-9999-4999-8999-999999999999"


@dataclass
class Books:
    """A small cloud where everything agrees: three ACTIVE servers, the second with a user's port, the third on a flat
    network, and a port of nobody.
    """

    world: World
    dsn: str
    servers: list[str]
    mine: str
    loose: str

    @classmethod
    async def make(cls, database: Database, dsn: str) -> "Books":
        """Settled."""
        world = await World.make(database)
        await world.hosts("r1-h1", "r1-h2", reach=["rack1"])
        await world.hosts("r2-h1", reach=["rack2"])
        network = await world.routed(rack1="10.1.0.0/28", rack2="10.2.0.0/28")
        plain = await world.cloud.plain("10.3.0.0/28")
        mine, loose = [
            (await ports.create_port(world.networks, PortRequest(network_id=net.id, project_id=PROJECT, name=name))).id
            for net, name in ((network, "mine"), (plain, "loose"))
        ]
        servers = await world.boot(network.id, plain.id)
        servers += await world.boot(port_id=mine)
        servers += await world.boot((await world.cloud.flat(cell1="10.4.0.0/28")).id)
        await world.run()
        await world.settled()
        return cls(world, dsn, servers, mine, loose)

    async def copied(self, database: Database, dsn: str) -> "Books":
        """The same cloud on a copy of its database, with processes that were just started."""
        world = await World.open(database, env=Env(random=Random(1)))
        world.guests, world.states = dict(self.world.guests), dict(self.world.states)
        world.running = set(self.world.running)
        return Books(world, dsn, self.servers, self.mine, self.loose)

    async def execute(self, *statements: str) -> None:
        """Change rows behind Roost's back."""
        server, keeper, legacy = self.servers
        names = {"server": server, "keeper": keeper, "legacy": legacy, "mine": self.mine, "loose": self.loose}
        async with self.world.database.connection() as connection:
            for statement in statements:
                await connection.execute(statement.format(nobody=NOBODY, **names))

    async def audit(self, **options: Any) -> tuple[int, dict[str, Any]]:
        """(exit status, the report)."""
        status, text = await self.tell(as_json=True, **options)
        return status, msgspec.json.decode(text)

    async def tell(self, **options: Any) -> tuple[int, str]:
        """(exit status, what people read)."""
        out = io.StringIO()
        target = LedgerTarget(data_dir=None, database=self.dsn, pg_bin=None)
        status = await audit(target, Console(file=out, width=200), **options)
        return status, out.getvalue()

    async def reconcile(self) -> None:
        """What the processes do at their intervals, twice."""
        ledger = Ledger(self.world.database)
        await sync_standard_names(ledger)
        for _ in range(2):
            await ledger_audit.reconcile(ledger)
            await network_audit.AUDIT.reconcile(self.world.networks)
            await compute_audit.AUDIT.reconcile(self.world.compute)


SEGMENT = "(SELECT id FROM network.segment WHERE physical_network = 'rack1')"
RACK1 = f"(SELECT id FROM placement.provider WHERE uuid = {SEGMENT})"
CLAIM_AT = """INSERT INTO placement.allocation SELECT '{{nobody}}', provider_id, resource_class_id, 1
    FROM placement.inventory WHERE provider_id = {}"""
UNUSE = """UPDATE placement.inventory i SET used = i.used - a.used FROM placement.allocation a
    WHERE a.consumer_uuid = 'WHO' AND a.provider_id = i.provider_id AND a.resource_class_id = i.resource_class_id"""
HOLD = "INSERT INTO placement.consumer (uuid, consumer_type, project_id, user_id) VALUES ('{{nobody}}', '{}', 'p', 'u')"
USE = "UPDATE placement.inventory SET used = used + 1 WHERE provider_id = {}"
HOST = "(SELECT id FROM placement.provider WHERE name = 'r1-h1')"

DRIFTS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "a port is deleted and its address stays": (
        ADDRESS_STRAY, ("DELETE FROM network.port WHERE id = '{loose}'",),
    ),
    "the claim of a port is deleted": (
        PORT_CLAIM_SMALL,
        (
            UNUSE.replace("WHO", "{loose}"),
            "DELETE FROM placement.allocation WHERE consumer_uuid = '{loose}'",
            "DELETE FROM placement.consumer WHERE uuid = '{loose}'",
        ),
    ),
    "the allocations of a port are deleted alone": (
        PORT_CLAIM_SMALL, ("DELETE FROM placement.allocation WHERE consumer_uuid = '{loose}'",),
    ),
    "a claim is of a port that is not there": (
        PORT_CLAIM_STRAY, (HOLD.format("PORT"), CLAIM_AT.format(RACK1), USE.format(RACK1)),
    ),
    "the addresses of a port are deleted": (
        PORT_CLAIM_IDLE, ("DELETE FROM network.address WHERE port_id = '{loose}'",),
    ),
    "the claim of a port is larger than its addresses": (
        PORT_CLAIM_LARGE,
        (
            "UPDATE placement.allocation SET used = 3 WHERE consumer_uuid = '{loose}'",
            "UPDATE placement.inventory i SET used = i.used + 2 FROM placement.allocation a WHERE a.consumer_uuid ="
            " '{loose}' AND a.provider_id = i.provider_id",
        ),
    ),
    "the inventory of a segment is not its pools": (
        PROVIDER_WRONG, (f"UPDATE placement.inventory SET total = 99, reserved = 3 WHERE provider_id = {RACK1}",),
    ),
    "the provider of a segment is gone, with claims on it": (
        PROVIDER_WRONG, (f"DELETE FROM placement.provider WHERE uuid = {SEGMENT}",),
    ),
    "the sharing trait of a segment is gone": (
        PROVIDER_WRONG, (f"DELETE FROM placement.provider_trait WHERE provider_id = {RACK1}",),
    ),
    "a segment is in the wrong placement aggregate": (
        PROVIDER_WRONG,
        (f"UPDATE placement.provider_aggregate SET aggregate_uuid = '{{nobody}}' WHERE provider_id = {RACK1}",),
    ),
    "a provider is of a segment that is not there": (
        PROVIDER_STRAY,
        (
            "INSERT INTO placement.provider (uuid, name, root_id)"
            " VALUES ('{nobody}', 'Neutron segment id {nobody}', 0)",
            "UPDATE placement.provider SET root_id = id WHERE root_id = 0",
        ),
    ),
    "an address of a pool is marked as of none": (
        ADDRESS_WRONG, ("UPDATE network.address SET in_pool = false WHERE port_id = '{loose}'",),
    ),
    "an address outside the pools is marked as of them": (
        ADDRESS_WRONG,
        (
            "INSERT INTO network.address SELECT subnet_id, '10.3.0.1', port_id, true, NULL, true"
            " FROM network.address WHERE port_id = '{loose}'",
        ),
    ),
    "free ranges overlap addresses": (
        FREE_WRONG, ("UPDATE network.free_range SET first_address = '10.3.0.2' WHERE last_address = '10.3.0.14'",),
    ),
    "free ranges have lost addresses": (
        FREE_WRONG, ("UPDATE network.free_range SET last_address = '10.3.0.9' WHERE last_address = '10.3.0.14'",),
    ),
    "free ranges are gone": (
        FREE_WRONG, ("DELETE FROM network.free_range WHERE last_address = '10.1.0.14'",),
    ),
    "a server is gone and its ports stay": (
        PORT_STRAY,
        ("DELETE FROM compute.guest WHERE server_id = '{server}'", "DELETE FROM compute.server WHERE id = '{server}'"),
    ),
    "a port of a build that is done was never bound": (
        PORT_LATE,
        (
            "INSERT INTO network.port (id, network_id, project_id, mac_address, device_id, ip_allocation, made_for,"
            " reserved_from) SELECT '{nobody}', network_id, project_id, 'fa:16:3e:ff:ff:ff', '{server}', 'deferred',"
            " '{server}', '{{}}' FROM network.port WHERE id = '{mine}'",
        ),
    ),
    "a server is gone and its user's port stays": (
        PORT_UNOWNED,
        ("DELETE FROM compute.guest WHERE server_id = '{keeper}'", "DELETE FROM compute.server WHERE id = '{keeper}'"),
    ),
    "a port is reserved for a build that is done": (
        PORT_RESERVED,
        (
            "UPDATE network.port SET reserved_from = '{{}}' WHERE id = '{mine}'",
            "UPDATE network.address SET assigned_for = '{keeper}' WHERE port_id = '{mine}'",
        ),
    ),
    "a claim is of a server that is not there": (
        SERVER_CLAIM_STRAY,
        (HOLD.format("INSTANCE"), CLAIM_AT.format(HOST), USE.format(HOST)),
    ),
    "the claim of a server is gone": (
        SERVER_CLAIM_WRONG,
        (
            UNUSE.replace("WHO", "{server}"),
            "DELETE FROM placement.allocation WHERE consumer_uuid = '{server}'",
            "DELETE FROM placement.consumer WHERE uuid = '{server}'",
        ),
    ),
    "the claim of a server is not what it asked for": (
        SERVER_CLAIM_WRONG, ("UPDATE placement.allocation SET used = 7 WHERE consumer_uuid = '{server}'",),
    ),
    "a server that is not there has an address of a flat network": (
        PORT_STRAY,
        (
            "INSERT INTO network.port (id, network_id, project_id, mac_address, device_id, device_owner,"
            " ip_allocation, made_for, nic_tag) SELECT '{nobody}', network_id, project_id, 'mac', '{nobody}',"
            " device_owner, ip_allocation, '{nobody}', nic_tag FROM network.port WHERE nic_tag IS NOT NULL",
            "INSERT INTO network.address SELECT subnet_id, '10.4.0.3', '{nobody}', true, NULL, false"
            " FROM network.address WHERE address = '10.4.0.2'",
            "UPDATE network.free_range SET first_address = '10.4.0.4' WHERE first_address = '10.4.0.3'",
        ),
    ),
    "an address of a flat network is of a pool that is not there": (
        ADDRESS_STRAY, ("UPDATE network.address SET subnet_id = '{nobody}' WHERE address = '10.4.0.2'",),
    ),
    "an address of a flat network is marked as if its port claimed it": (
        ADDRESS_WRONG, ("UPDATE network.address SET claimed = true WHERE address = '10.4.0.2'",),
    ),
    "the claim of a server on a flat network is more than its addresses": (
        FLAT_CLAIM_WRONG,
        (
            "UPDATE placement.allocation SET used = used + 2 FROM placement.provider p"
            " WHERE p.id = provider_id AND consumer_uuid = '{legacy}' AND p.name LIKE 'Flat pool id %'",
            "UPDATE placement.inventory SET used = used + 2 FROM placement.provider p"
            " WHERE p.id = provider_id AND p.name LIKE 'Flat pool id %'",
        ),
    ),
    "an address of a segment is claimed by a server itself": (
        FLAT_CLAIM_WRONG, (CLAIM_AT.format(RACK1).replace("{nobody}", "{server}"), USE.format(RACK1)),
    ),
    "the claim of a server on a flat network has lost its address": (
        FLAT_CLAIM_WRONG,
        (
            "DELETE FROM placement.allocation USING placement.provider p"
            " WHERE p.id = provider_id AND consumer_uuid = '{legacy}' AND p.name LIKE 'Flat pool id %'",
            "UPDATE placement.inventory SET used = used - 1 FROM placement.provider p"
            " WHERE p.id = provider_id AND p.name LIKE 'Flat pool id %'",
        ),
    ),
    "use is not the sum of the allocations": (
        USE_WRONG, ("UPDATE placement.inventory SET used = used + 5",),
    ),
    "an allocation is of a consumer that is not there": (
        ALLOCATION_STRAY, (CLAIM_AT.format(RACK1), USE.format(RACK1)),
    ),
    "a host is noted under the root of another": (
        ROOT_WRONG,
        (
            "UPDATE placement.provider SET root_id = (SELECT id FROM placement.provider WHERE name = 'r2-h1')"
            " WHERE name = 'r1-h1'",
        ),
    ),
    "a consumer holds nothing": (CONSUMER_EMPTY, (HOLD.format("PORT"),)),
    "a host is missing in the host aggregate of its segment": (
        AGGREGATE_WRONG, ("DELETE FROM compute.host_aggregate_host WHERE host = 'r1-h2'",),
    ),
    "a host is in the host aggregate of another segment, and one is nobody": (
        AGGREGATE_WRONG,
        (
            "INSERT INTO compute.host_aggregate_host SELECT aggregate_uuid, 'r2-h1' FROM compute.host_aggregate_host"
            " WHERE host = 'r1-h2' ON CONFLICT DO NOTHING",
            "INSERT INTO compute.host_aggregate_host SELECT aggregate_uuid, 'stranger' FROM"
            " compute.host_aggregate_host WHERE host = 'r1-h2'",
        ),
    ),
    "the host aggregate of a segment is gone": (
        AGGREGATE_WRONG, ("DELETE FROM compute.host_aggregate WHERE name LIKE 'Neutron segment id %'",),
    ),
    "a host aggregate is of a segment that is not there": (
        AGGREGATE_STRAY,
        ("INSERT INTO compute.host_aggregate (uuid, name) VALUES ('{nobody}', 'Neutron segment id {nobody}')",),
    ),
    "an allocation has no inventory": (
        ALLOCATION_UNBACKED, (f"DELETE FROM placement.inventory WHERE provider_id = {RACK1}",),
    ),
    "an allocation of a server has no inventory": (
        ALLOCATION_UNBACKED,
        (
            "DELETE FROM placement.inventory USING placement.provider p, compute.host h, compute.server s"
            " WHERE p.id = provider_id AND p.uuid = h.provider_uuid AND h.name = s.host AND s.id = '{server}'",
        ),
    ),
    "the inventory of a host is not what it has": (
        HOST_WRONG, (f"UPDATE placement.inventory SET total = total + 64 WHERE provider_id = {HOST}",),
    ),
    "the provider of a host is gone": (
        HOST_WRONG, (f"DELETE FROM placement.provider WHERE id = {HOST}",),
    ),
    "an open host is closed for the ledger": (
        HOST_WRONG,
        (
            f"INSERT INTO placement.provider_trait SELECT {HOST}, id FROM placement.trait"
            " WHERE name = 'COMPUTE_STATUS_DISABLED'",
        ),
    ),
    "a closed host is open for the ledger": (
        HOST_WRONG, ("UPDATE compute.host SET disabled = true WHERE name = 'r2-h1'",),
    ),
    "the network service does not know a host": (
        HOST_WRONG, ("DELETE FROM network.host WHERE name = 'r1-h1'",),
    ),
    "the network service has a host on another physical network": (
        HOST_WRONG, ("UPDATE network.host SET physical_networks = '{{rack2}}' WHERE name = 'r1-h1'",),
    ),
    "the network service has a host in another cell": (
        HOST_WRONG, ("UPDATE network.host SET cell = 'cell2' WHERE name = 'r1-h1'",),
    ),
    "a host's provider is not in its placement aggregates": (
        MIRROR_WRONG, (f"DELETE FROM placement.provider_aggregate WHERE provider_id = {HOST}",),
    ),
    "a host's provider is in the placement aggregate of another segment": (
        MIRROR_WRONG,
        (
            f"INSERT INTO placement.provider_aggregate SELECT {HOST}, aggregate_uuid FROM compute.host_aggregate_host"
            " WHERE host = 'r2-h1' ON CONFLICT DO NOTHING",
        ),
    ),
    "what is kept of a server's ports has another address": (
        SERVER_PORTS_WRONG,
        (
            "UPDATE compute.server SET network_info = jsonb_set(network_info, '{{0,addresses}}', '[\"10.9.9.9\"]')"
            " WHERE id = '{keeper}'",
        ),
    ),
    "what is kept of a server's ports has another MAC address": (
        SERVER_PORTS_WRONG,
        (
            "UPDATE compute.server SET network_info = jsonb_set(network_info, '{{0,mac_address}}', '\"mac\"')"
            " WHERE id = '{keeper}'",
        ),
    ),
    "what is kept of a server's address on a flat network is another": (
        SERVER_PORTS_WRONG,
        (
            "UPDATE compute.server SET network_info = jsonb_set(network_info, '{{0,addresses}}', '[\"10.9.9.9\"]')"
            " WHERE id = '{legacy}'",
        ),
    ),
    "a server's address on a flat network is gone": (
        SERVER_PORTS_WRONG, ("DELETE FROM network.address WHERE address = '10.4.0.2'",),
    ),
    "what is kept of a server's ports is gone": (
        SERVER_PORTS_WRONG, ("UPDATE compute.server SET network_info = '[]' WHERE id = '{server}'",),
    ),
}  # fmt: skip
"""What happened -> the kind that it is, and the statements that make it."""
