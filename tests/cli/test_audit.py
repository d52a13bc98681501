"""`roost-manage audit`: each kind of drift is made by hand, named, repaired, and healed by the reconcilers too."""

import asyncio
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.conductor.world import World
from tests.invariants import assert_books_agree
from tests.network.cloud import PROJECT

from roost.cli.audit import AuditRequest, audit
from roost.cli.ledger_target import LedgerTarget
from roost.conductor.reconcile import audit_once as audit_servers
from roost.network.model import PortRequest
from roost.network.reconciler import audit_once as audit_network
from roost.network.service import networks, ports
from roost.placement.service_audit import audit_once as audit_ledger
from roost.placement.service_ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.seams.audit import Kind, Mend

MANAGE = [sys.executable, "-c", "from roost.cli.manage import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
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
        status = await audit(AuditRequest(target=target, **options), Console(file=out, width=200))
        return status, out.getvalue()

    async def reconcile(self) -> None:
        """What the processes do at their intervals, twice."""
        ledger = Ledger(self.world.database)
        await sync_standard_names(ledger)
        for _ in range(2):
            await audit_ledger(ledger)
            await audit_network(self.world.networks)
            await audit_servers(self.world.conductor)


@pytest.fixture
async def books(database: Database, dsn: str) -> Books:
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
    return Books(world, dsn, servers, mine, loose)


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
        Kind.ADDRESS_STRAY, ("DELETE FROM network.port WHERE id = '{loose}'",),
    ),
    "the claim of a port is deleted": (
        Kind.PORT_CLAIM_SMALL,
        (
            UNUSE.replace("WHO", "{loose}"),
            "DELETE FROM placement.allocation WHERE consumer_uuid = '{loose}'",
            "DELETE FROM placement.consumer WHERE uuid = '{loose}'",
        ),
    ),
    "the allocations of a port are deleted alone": (
        Kind.PORT_CLAIM_SMALL, ("DELETE FROM placement.allocation WHERE consumer_uuid = '{loose}'",),
    ),
    "a claim is of a port that is not there": (
        Kind.PORT_CLAIM_STRAY, (HOLD.format("PORT"), CLAIM_AT.format(RACK1), USE.format(RACK1)),
    ),
    "the addresses of a port are deleted": (
        Kind.PORT_CLAIM_IDLE, ("DELETE FROM network.address WHERE port_id = '{loose}'",),
    ),
    "the claim of a port is larger than its addresses": (
        Kind.PORT_CLAIM_LARGE,
        (
            "UPDATE placement.allocation SET used = 3 WHERE consumer_uuid = '{loose}'",
            "UPDATE placement.inventory i SET used = i.used + 2 FROM placement.allocation a WHERE a.consumer_uuid ="
            " '{loose}' AND a.provider_id = i.provider_id",
        ),
    ),
    "the inventory of a segment is not its pools": (
        Kind.PROVIDER_WRONG, (f"UPDATE placement.inventory SET total = 99, reserved = 3 WHERE provider_id = {RACK1}",),
    ),
    "the provider of a segment is gone, with claims on it": (
        Kind.PROVIDER_WRONG, (f"DELETE FROM placement.provider WHERE uuid = {SEGMENT}",),
    ),
    "the sharing trait of a segment is gone": (
        Kind.PROVIDER_WRONG, (f"DELETE FROM placement.provider_trait WHERE provider_id = {RACK1}",),
    ),
    "a segment is in the wrong placement aggregate": (
        Kind.PROVIDER_WRONG,
        (f"UPDATE placement.provider_aggregate SET aggregate_uuid = '{{nobody}}' WHERE provider_id = {RACK1}",),
    ),
    "a provider is of a segment that is not there": (
        Kind.PROVIDER_STRAY,
        (
            "INSERT INTO placement.provider (uuid, name, root_id)"
            " VALUES ('{nobody}', 'Neutron segment id {nobody}', 0)",
            "UPDATE placement.provider SET root_id = id WHERE root_id = 0",
        ),
    ),
    "free ranges overlap addresses": (
        Kind.FREE_WRONG, ("UPDATE network.free_range SET first_address = '10.3.0.2' WHERE last_address = '10.3.0.14'",),
    ),
    "free ranges have lost addresses": (
        Kind.FREE_WRONG, ("UPDATE network.free_range SET last_address = '10.3.0.9' WHERE last_address = '10.3.0.14'",),
    ),
    "free ranges are gone": (
        Kind.FREE_WRONG, ("DELETE FROM network.free_range WHERE last_address = '10.1.0.14'",),
    ),
    "a server is gone and its ports stay": (
        Kind.PORT_STRAY,
        ("DELETE FROM compute.guest WHERE server_id = '{server}'", "DELETE FROM compute.server WHERE id = '{server}'"),
    ),
    "a server is gone and its user's port stays": (
        Kind.PORT_UNOWNED,
        ("DELETE FROM compute.guest WHERE server_id = '{keeper}'", "DELETE FROM compute.server WHERE id = '{keeper}'"),
    ),
    "a port is reserved for a build that is done": (
        Kind.PORT_RESERVED,
        (
            "UPDATE network.port SET reserved_from = '{{}}' WHERE id = '{mine}'",
            "UPDATE network.address SET assigned_for = '{keeper}' WHERE port_id = '{mine}'",
        ),
    ),
    "a claim is of a server that is not there": (
        Kind.SERVER_CLAIM_STRAY,
        (HOLD.format("INSTANCE"), CLAIM_AT.format(HOST), USE.format(HOST)),
    ),
    "the claim of a server is gone": (
        Kind.SERVER_CLAIM_WRONG,
        (
            UNUSE.replace("WHO", "{server}"),
            "DELETE FROM placement.allocation WHERE consumer_uuid = '{server}'",
            "DELETE FROM placement.consumer WHERE uuid = '{server}'",
        ),
    ),
    "the claim of a server is not what it asked for": (
        Kind.SERVER_CLAIM_WRONG, ("UPDATE placement.allocation SET used = 7 WHERE consumer_uuid = '{server}'",),
    ),
    "a server that is not there has an address of a flat network": (
        Kind.FLAT_STRAY,
        (
            "INSERT INTO network.flat_address SELECT '{nobody}', tag, network_id, subnet_id, '10.4.0.3', 'mac', 1"
            " FROM network.flat_address",
            "UPDATE network.free_range SET first_address = '10.4.0.4' WHERE first_address = '10.4.0.3'",
        ),
    ),
    "the claim of a server on a flat network is more than its addresses": (
        Kind.FLAT_CLAIM_WRONG,
        (
            "UPDATE placement.allocation SET used = used + 2 FROM placement.provider p"
            " WHERE p.id = provider_id AND consumer_uuid = '{legacy}' AND p.name LIKE 'Flat pool id %'",
            "UPDATE placement.inventory SET used = used + 2 FROM placement.provider p"
            " WHERE p.id = provider_id AND p.name LIKE 'Flat pool id %'",
        ),
    ),
    "the claim of a server on a flat network has lost its address": (
        Kind.FLAT_CLAIM_WRONG,
        (
            "DELETE FROM placement.allocation USING placement.provider p"
            " WHERE p.id = provider_id AND consumer_uuid = '{legacy}' AND p.name LIKE 'Flat pool id %'",
            "UPDATE placement.inventory SET used = used - 1 FROM placement.provider p"
            " WHERE p.id = provider_id AND p.name LIKE 'Flat pool id %'",
        ),
    ),
    "use is not the sum of the allocations": (
        Kind.USE_WRONG, ("UPDATE placement.inventory SET used = used + 5",),
    ),
    "an allocation is of a consumer that is not there": (
        Kind.ALLOCATION_STRAY, (CLAIM_AT.format(RACK1), USE.format(RACK1)),
    ),
    "a consumer holds nothing": (Kind.CONSUMER_EMPTY, (HOLD.format("PORT"),)),
    "a host is missing in the host aggregate of its segment": (
        Kind.AGGREGATE_WRONG, ("DELETE FROM compute.host_aggregate_host WHERE host = 'r1-h2'",),
    ),
    "a host is in the host aggregate of another segment, and one is nobody": (
        Kind.AGGREGATE_WRONG,
        (
            "INSERT INTO compute.host_aggregate_host SELECT aggregate_uuid, 'r2-h1' FROM compute.host_aggregate_host"
            " WHERE host = 'r1-h2' ON CONFLICT DO NOTHING",
            "INSERT INTO compute.host_aggregate_host SELECT aggregate_uuid, 'stranger' FROM"
            " compute.host_aggregate_host WHERE host = 'r1-h2'",
        ),
    ),
    "the host aggregate of a segment is gone": (
        Kind.AGGREGATE_WRONG, ("DELETE FROM compute.host_aggregate WHERE name LIKE 'Neutron segment id %'",),
    ),
    "a host aggregate is of a segment that is not there": (
        Kind.AGGREGATE_STRAY,
        ("INSERT INTO compute.host_aggregate (uuid, name) VALUES ('{nobody}', 'Neutron segment id {nobody}')",),
    ),
    "a host's provider is not in its placement aggregates": (
        Kind.MIRROR_WRONG, (f"DELETE FROM placement.provider_aggregate WHERE provider_id = {HOST}",),
    ),
    "a host's provider is in the placement aggregate of another segment": (
        Kind.MIRROR_WRONG,
        (
            f"INSERT INTO placement.provider_aggregate SELECT {HOST}, aggregate_uuid FROM compute.host_aggregate_host"
            " WHERE host = 'r2-h1' ON CONFLICT DO NOTHING",
        ),
    ),
    "what is kept of a server's ports has another address": (
        Kind.SERVER_PORTS_WRONG,
        (
            "UPDATE compute.server SET network_info = jsonb_set(network_info, '{{0,addresses}}', '[\"10.9.9.9\"]')"
            " WHERE id = '{keeper}'",
        ),
    ),
    "what is kept of a server's ports is gone": (
        Kind.SERVER_PORTS_WRONG, ("UPDATE compute.server SET network_info = '[]' WHERE id = '{server}'",),
    ),
}  # fmt: skip
"""What happened -> the kind that it is, and the statements that make it."""


async def test_a_cloud_where_all_agrees_is_clean(books: Books) -> None:
    status, report = await books.audit()
    assert (status, report["clean"], report["found"]) == (0, True, [])
    assert set(report["counts"]) == {kind.code for kind in Kind}
    assert await books.tell(repair=True) == (0, "Nothing has drifted.\n")


@pytest.mark.parametrize("what", DRIFTS)
async def test_drift_is_named_then_repaired_and_then_clean(books: Books, what: str) -> None:
    kind, statements = DRIFTS[what]
    await books.execute(*statements)
    status, report = await books.audit()
    assert status == 3
    assert report["counts"][kind.code] >= 1, report["found"]
    assert all(one["key"] and one["what"] and one["repair"] for one in report["found"])
    again, same = await books.audit()
    assert (again, same["found"]) == (3, report["found"]), "looking changes nothing"
    status, report = await books.audit(repair=True)
    assert (status, report["left"]) == (4, [])
    assert {one["kind"] for one in report["repaired"]} >= {kind.code}
    assert (await books.audit())[0] == 0
    await assert_books_agree(books.world.database)


@pytest.mark.parametrize("what", [what for what, (kind, _) in DRIFTS.items() if kind.mend is Mend.ITSELF])
async def test_the_reconcilers_heal_it_themselves(books: Books, what: str) -> None:
    await books.execute(*DRIFTS[what][1])
    await books.reconcile()
    assert (await books.audit())[0] == 0
    await assert_books_agree(books.world.database)


def test_every_kind_that_can_be_repaired_is_tried() -> None:
    assert {kind for kind, _ in DRIFTS.values()} == {kind for kind in Kind if kind.mend is not Mend.PERSON}


RELEASING = "INSERT INTO network.release (port_id) VALUES ('{loose}'), ('{nobody}')"
CLAIMING = (
    "INSERT INTO network.intent SELECT id, 1, now() + interval '1 h' FROM unnest('{{{loose},{nobody}}}'::uuid[]) id"
)
WORKING = "INSERT INTO compute.work (server_id, stage) VALUES ('{server}', 'delete'), ('{keeper}', 'delete')"
PUBLISHING = "UPDATE network.publication SET wanted = wanted + 1"
PLACING = "UPDATE compute.host SET wanted = wanted + 1"
CHANGING = """UPDATE network.subnet SET change = jsonb_build_object('id', id, 'before', jsonb_build_object(
    'name', name, 'description', '', 'gateway_ip', gateway_ip, 'enable_dhcp', true, 'dns_nameservers', '[]'::jsonb,
    'host_routes', '[]'::jsonb, 'service_types', '[]'::jsonb, 'segment_id', segment_id, 'pools', '[]'::jsonb))"""

UNDER_WAY = (
    ("a claim is of a port that is not there", RELEASING),
    ("a claim is of a port that is not there", CLAIMING),
    ("the addresses of a port are deleted", RELEASING),
    ("the addresses of a port are deleted", CLAIMING),
    ("the claim of a port is larger than its addresses", RELEASING),
    ("the claim of a port is larger than its addresses", CLAIMING),
    ("the claim of a port is larger than its addresses", CHANGING),
    ("the claim of a port is deleted", CLAIMING),
    ("free ranges overlap addresses", CHANGING),
    ("the sharing trait of a segment is gone", PUBLISHING),
    ("the host aggregate of a segment is gone", f"{PUBLISHING}; {PLACING}"),
    ("a host is missing in the host aggregate of its segment", f"{PUBLISHING}; {PLACING}"),
    ("a host is missing in the host aggregate of its segment", PLACING),
    ("a host's provider is not in its placement aggregates", PLACING),
    ("a port is reserved for a build that is done", WORKING),
    ("the claim of a server is gone", WORKING),
    ("what is kept of a server's ports has another address", WORKING),
    (
        "what is kept of a server's ports is gone",
        "INSERT INTO network.notice (server_id, lost_port_id) VALUES ('{server}', NULL)",
    ),
    ("a server is gone and its ports stay", WORKING),
)
"""What would be drift, and what says that somebody is at work on it."""


@pytest.mark.parametrize(("what", "at_work"), UNDER_WAY)
async def test_what_is_under_way_is_no_drift_and_is_left_alone(books: Books, what: str, at_work: str) -> None:
    await books.execute(*DRIFTS[what][1])
    kind = DRIFTS[what][0]
    assert (await books.audit())[1]["counts"][kind.code] >= 1
    await books.execute(*at_work.split(";"))
    _, report = await books.audit(repair=True)
    assert kind.code not in {one["kind"] for one in report["found"]}, report["found"]


async def test_what_only_a_person_can_put_right_is_left(books: Books) -> None:
    """A port elsewhere than its server, and one whose host was cabled anew under it."""
    await books.execute("UPDATE network.port SET host = 'r2-h1' WHERE id = '{mine}'")
    status, report = await books.audit(repair=True)
    assert status == 3
    assert {one["kind"] for one in report["left"]} == {"port-elsewhere", "port-unreached"}
    assert report["repaired"] == []


async def test_a_claim_for_which_there_is_no_room_is_left_and_nothing_is_over_capacity(books: Books) -> None:
    await books.execute(*DRIFTS["the claim of a port is deleted"][1])
    plain = "(SELECT network_id FROM network.port WHERE id = '{loose}')"
    full = f"""UPDATE network.pool SET last_address = first_address WHERE subnet_id =
        (SELECT id FROM network.subnet WHERE network_id = {plain})"""
    await books.execute(full)
    status, report = await books.audit(repair=True)
    assert status == 3
    assert {one["kind"] for one in report["left"]} == {"port-claim-small"}
    assert await books.world.cloud.used(await network_of(books)) == (1, 1)


async def network_of(books: Books) -> str:
    return (await ports.get_port(books.world.networks, books.loose)).network_id


async def test_people_read_a_table_and_are_asked_before_anything_is_changed(books: Books) -> None:
    await books.execute(*DRIFTS["a consumer holds nothing"][1])
    status, text = await books.tell()
    assert status == 3
    assert "a consumer holds nothing (consumer-empty)" in text
    assert NOBODY in text
    assert text.endswith("1 drift found. Nothing was changed.\n")
    status, text = await books.tell(repair=True, confirm=lambda: False)
    assert status == 3
    assert text.endswith("1 drift found.\n")
    status, text = await books.tell(repair=True, confirm=lambda: True)
    assert status == 4
    assert text.endswith("1 drift repaired.\n")
    assert (await books.audit())[0] == 0


def manage(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*MANAGE, "audit", *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


async def test_the_command_shows_what_it_repairs_and_its_exit_statuses_are_kept(books: Books, tmp_path: Path) -> None:
    await books.execute(*DRIFTS["free ranges are gone"][1])
    status, out, _ = await asyncio.to_thread(manage, "--database", books.dsn, "--json")
    assert (status, msgspec.json.decode(out)["counts"]["free-wrong"]) == (3, 1)
    status, out, _ = await asyncio.to_thread(manage, "--database", books.dsn, "--repair")
    assert status == 4
    assert out.index("free-wrong") < out.index("1 drift repaired.")
    assert await asyncio.to_thread(manage, "--database", books.dsn) == (0, "Nothing has drifted.\n", "")
    for arguments, said in (
        (("--database", "postgresql://nobody@127.0.0.1:1/none"), "no PostgreSQL answers"),
        (("--data-dir", str(tmp_path / "none")), "/none: give roost serve's --data-dir"),
    ):
        status, out, error = await asyncio.to_thread(manage, *arguments)
        assert (status, out) == (1, ""), error
        assert said in error
        assert "Traceback" not in error
    assert (await asyncio.to_thread(manage, "--database", books.dsn, "--data-dir", str(tmp_path)))[0] == 2


async def test_a_database_of_another_version_is_refused_and_a_ledger_alone_is_audited(books: Books) -> None:
    await books.execute("UPDATE network.alembic_version SET version_num = 'network_0000'")
    assert await asyncio.to_thread(manage, "--database", books.dsn) == (
        1, "", "roost-manage: the schemas network of the database are not of this version of Roost: `roost serve` "
        "brings them up to date\n",
    )  # fmt: skip
    await books.execute("DROP SCHEMA network CASCADE", "DROP SCHEMA compute CASCADE")
    assert (await books.audit())[0] == 0
    await books.execute(*DRIFTS["use is not the sum of the allocations"][1])
    assert (await books.audit(repair=True))[0] == 4


async def test_a_busy_cloud_audits_clean(books: Books) -> None:
    """Builds, deletes, clients' ports, subnets and hosts that come and go: what is under way is no drift."""
    world, audits = books.world, 0
    network = await network_of(books)
    stopping = asyncio.Event()

    async def build(number: int) -> None:
        for _ in range(6):
            made = await world.boot(network, count=2)
            await world.run(failing=["r1-h2"] if number else [])
            await world.delete(*made)
            await world.run()

    async def clients() -> None:
        while not stopping.is_set():
            wanted = PortRequest(network_id=network, project_id=PROJECT)
            made = [(await ports.create_port(world.networks, wanted)).id for _ in range(3)]
            for port_id in made:
                await ports.delete_port(world.networks, port_id)

    async def operators() -> None:
        cabled = 0
        while not stopping.is_set():
            cabled += 1
            await world.hosts(f"h{cabled % 3}", reach=["rack1", f"rack{cabled % 2}"])
            gone = await world.routed(rack1="10.7.0.0/28")
            await networks.delete_network(world.networks, gone.id)

    async def reconcile() -> None:
        while not stopping.is_set():
            await books.reconcile()

    async def look() -> None:
        nonlocal audits
        while not stopping.is_set():
            status, report = await books.audit()
            assert status == 0, report["found"]
            audits += 1

    async with asyncio.TaskGroup() as group:
        for work in (clients(), operators(), look(), reconcile()):
            group.create_task(work)
        await asyncio.gather(build(0), build(1))
        stopping.set()
    assert audits > 5
    await world.expire_leases()
    await world.run()
    await world.settled()
