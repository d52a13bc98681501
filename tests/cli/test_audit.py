"""`roost-manage audit`: each kind of drift is made by hand, named, repaired, and healed by the reconcilers too."""

import asyncio
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from tests.cli.drifts import DRIFTS, HOLD, NOBODY, Books
from tests.invariants import assert_books_agree
from tests.launching import run_manage
from tests.network.cloud import PROJECT
from tests.placements import close_placements

from roost.cli.managing.audit_report import KINDS, print_outcome
from roost.compute.rules.drift import (
    ADDRESS_TWICE,
    AGENT_TWICE,
    GUEST_MISSING,
    GUEST_STRAY,
    GUEST_UNKNOWN,
    HOST_IDLE,
    HOST_OLD,
    PORT_ELSEWHERE,
    WENT_BACK,
)
from roost.network.errors import SubnetInUse
from roost.network.model.networks import SubnetChanges
from roost.network.model.ports import PortRequest
from roost.network.rules.drift import PORT_UNREACHED
from roost.network.service import networks, ports, subnets
from roost.network.service.reconciler import reconcile_once
from roost.placement.rules.drift import CLAIM_PORTLESS, INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED
from roost.platform.database import Database
from roost.platform.drift import Drift, RepairedBy
from roost.platform.postgres import PrivatePostgres


@pytest.fixture(scope="module")
def original(postgres: PrivatePostgres, execute: Callable[[str], None]) -> Iterator[Books]:
    """The cloud, made once: each test has a copy of its database."""
    execute("CREATE DATABASE original TEMPLATE template")
    dsn = postgres.dsn.replace("/roost?", "/original?")

    async def make() -> Books:
        database = await Database.open(dsn)
        books = await Books.make(database, dsn)
        await close_placements()
        await database.close()
        return books

    yield asyncio.run(make())
    execute("DROP DATABASE original WITH (FORCE)")


@pytest.fixture
def copied_from(original: Books) -> str:
    """What the test's database is a copy of."""
    return "original"


@pytest.fixture
async def books(original: Books, database: Database, dsn: str) -> Books:
    return await original.copied(database, dsn)


async def test_a_cloud_where_all_agrees_is_clean(books: Books) -> None:
    status, report = await books.audit()
    assert (status, report["clean"], report["found"]) == (0, True, [])
    assert set(report["counts"]) == {kind.code for kind in KINDS}
    assert await books.tell(repair=True) == (0, "Nothing has drifted.\n")


async def test_what_nobody_can_use_is_named_and_is_no_drift(books: Books) -> None:
    world = books.world
    await world.routed(rack7="10.7.0.0/28")
    status, report = await books.audit()
    assert (status, report["clean"], report["found"]) == (0, True, [])
    (unreached,) = report["gaps"]
    assert re.fullmatch(
        r"no host reaches segment \S+ \(10\.7\.0\.0/28\): have an agent report physical network rack7", unreached
    )
    _, text = await books.tell()
    assert text.splitlines()[1:] == ["To look at, though it is no drift:", f"    {unreached}"]


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


@pytest.mark.parametrize("what", [what for what, (kind, _) in DRIFTS.items() if kind.repaired_by is RepairedBy.ITSELF])
async def test_the_reconcilers_heal_it_themselves(books: Books, what: str) -> None:
    await books.execute(*DRIFTS[what][1])
    await books.reconcile()
    assert (await books.audit())[0] == 0
    await assert_books_agree(books.world.database)


OTHERS = {GUEST_STRAY, GUEST_MISSING, GUEST_UNKNOWN, ADDRESS_TWICE, PORT_ELSEWHERE, PORT_UNREACHED}
OTHERS |= {INVENTORY_UNLIKE_POOLS, PORT_UNCLAIMED, CLAIM_PORTLESS, WENT_BACK, AGENT_TWICE, HOST_OLD, HOST_IDLE}
"""Kinds for which a person, an agent or a Neutron is needed, so that each has a test of its own."""


def test_every_kind_is_tried() -> None:
    assert {kind for kind, _ in DRIFTS.values()} | OTHERS == set(KINDS)


def test_the_reference_has_every_kind() -> None:
    by = {RepairedBy.ITSELF: "reconciler, `--repair`", RepairedBy.ASKED: "`--repair`", RepairedBy.PERSON: "you"}
    rows = [f"| `{kind.code}` | {kind.sentence} | {kind.repair} | {by[kind.repaired_by]} |" for kind in KINDS]
    text = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text()
    assert "\n".join(rows) in text


RELEASING = "INSERT INTO network.release (port_id) VALUES ('{loose}'), ('{nobody}')"
CLAIMING = "INSERT INTO network.intent SELECT id, now() + interval '1 h' FROM unnest('{{{loose},{nobody}}}'::uuid[]) id"
WORKING = "INSERT INTO compute.work (server_id, stage) VALUES ('{server}', 'delete'), ('{keeper}', 'delete')"
PUBLISHING = "UPDATE network.publication SET wanted = wanted + 1"
PLACING = "UPDATE compute.host SET wanted = wanted + 1"

UNDER_WAY = (
    ("a claim is of a port that is not there", RELEASING),
    ("a claim is of a port that is not there", CLAIMING),
    ("the addresses of a port are deleted", RELEASING),
    ("the addresses of a port are deleted", CLAIMING),
    ("the claim of a port is larger than its addresses", RELEASING),
    ("the claim of a port is larger than its addresses", CLAIMING),
    ("the claim of a port is deleted", CLAIMING),
    ("the network service does not know a host", PLACING),
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
    """A port elsewhere than its server, or whose host was cabled anew; a guest that is gone, or not known."""
    await books.execute(
        "UPDATE network.port SET host = 'r2-h1' WHERE id = '{mine}'",
        "DELETE FROM compute.guest WHERE server_id = '{keeper}'",
        "INSERT INTO compute.unknown_guest (host, server_id, attempt) VALUES ('r1-h1', '{nobody}', 3)",
    )
    status, report = await books.audit(repair=True)
    assert status == 3
    kinds = {GUEST_MISSING, GUEST_UNKNOWN, PORT_ELSEWHERE, PORT_UNREACHED}
    assert {one["kind"] for one in report["left"]} == {
        kind.code for kind in kinds if kind.repaired_by is RepairedBy.PERSON
    }
    assert report["repaired"] == []


@pytest.mark.parametrize(
    "what",
    [
        "DELETE FROM compute.server WHERE id IN ('{server}', '{keeper}', '{legacy}')",
        "INSERT INTO compute.guest SELECT server_id, 'r9-h9', attempt, desired, begun_at, reported FROM compute.guest",
    ],
)
async def test_a_guest_of_no_server_keeps_its_addresses_until_its_host_has_let_go(books: Books, what: str) -> None:
    world = books.world
    await world.hosts("r9-h9")
    await books.execute(what)
    before = await held(books)
    await books.reconcile()
    assert await held(books) == before, "what a guest uses is nobody else's, and no guest is destroyed unasked"
    status, report = await books.audit()
    assert (status, report["counts"]["guest-stray"]) == (3, 3)
    assert (await books.audit(repair=True))[0] == 4
    assert await held(books) == before
    await world.run()
    await books.reconcile()
    await books.audit(repair=True)  # the user's own port of a server that is gone is not detached unasked
    assert (await books.audit())[0] == 0
    await assert_books_agree(world.database)


async def held(books: Books) -> list[tuple[str, ...]]:
    """Who holds which addresses, and claims what."""
    async with books.world.database.connection() as connection:
        rows = await connection.fetch("""
            SELECT port_id::text, address::text, '' FROM network.address
            UNION ALL SELECT consumer_uuid::text, provider_id::text, used::text FROM placement.allocation
            ORDER BY 1, 2, 3
        """)
    return [tuple(row) for row in rows]


async def test_a_provider_that_has_the_name_of_another_holds_up_no_other_repair(books: Books) -> None:
    await books.execute(
        "UPDATE placement.provider SET uuid = '{nobody}'"
        " WHERE uuid = (SELECT network_id FROM network.port WHERE id = '{loose}')",
        *DRIFTS["free ranges are gone"][1],
    )
    status, report = await books.audit(repair=True)
    assert status == 3
    assert {one["kind"] for one in report["left"]} == {"port-claim-small"}, "the provider is still to be published"
    assert {one["kind"] for one in report["repaired"]} == {"free-wrong"}
    await books.execute("INSERT INTO network.release (port_id) VALUES ('{nobody}')")
    assert (await reconcile_once(books.world.networks)).released == 1


async def test_a_claim_for_which_there_is_no_room_is_left_and_nothing_is_over_capacity(books: Books) -> None:
    await books.execute(*DRIFTS["the claim of a port is deleted"][1])
    there = "i.provider_id = p.id AND p.uuid = (SELECT network_id FROM network.port WHERE id = '{loose}')"
    await books.execute(
        HOLD.format("OTHER"),
        "INSERT INTO placement.allocation SELECT '{nobody}', i.provider_id, i.resource_class_id, i.total - i.used"
        f" FROM placement.inventory i, placement.provider p WHERE {there}",
        f"UPDATE placement.inventory i SET used = i.total FROM placement.provider p WHERE {there}",
    )
    status, report = await books.audit(repair=True)
    assert status == 3
    assert {one["kind"] for one in report["left"]} == {"port-claim-small"}
    assert await books.world.cloud.used(await network_of(books)) == (13, 13)


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


@pytest.mark.parametrize(
    ("repaired", "said"),
    [
        ("ab", "2 drifts repaired."),
        ("abc", "3 drifts repaired, 1 of them seen only when others had been repaired."),
    ],
)
def test_more_repaired_than_was_found_is_explained(repaired: str, said: str) -> None:
    drifts = {key: Drift(kind=GUEST_STRAY, key=key, repaired=True) for key in "abc"}
    console = Console(file=io.StringIO(), width=200)
    print_outcome(console, [drifts["a"], drifts["b"]], [drifts[key] for key in repaired], [])
    assert console.file.getvalue() == f"{said}\n"


def manage(*arguments: str) -> tuple[int, str, str]:
    done = run_manage("audit", *arguments)
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
        assert (status, out) == (255, ""), error
        assert said in error
        assert "Traceback" not in error
    assert (await asyncio.to_thread(manage, "--database", books.dsn, "--data-dir", str(tmp_path)))[0] == 127


async def test_a_database_of_another_version_is_refused_and_a_ledger_alone_is_audited(books: Books) -> None:
    await books.execute(
        "UPDATE network.alembic_step SET version_num = 'network_0004' WHERE version_num <> 'network_0011'"
    )
    assert await asyncio.to_thread(manage, "--database", books.dsn) == (
        255, "", "roost-manage: the schemas network of the database are not of this version of Roost: `roost serve` "
        "brings them up to date\n",
    )  # fmt: skip
    await books.execute("DROP SCHEMA network, compute, seeing CASCADE")
    assert (await books.audit())[0] == 0
    await books.execute(*DRIFTS["use is not the sum of the allocations"][1])
    assert (await books.audit(repair=True))[0] == 4


async def test_a_busy_cloud_audits_clean(books: Books) -> None:
    """Builds, deletes, clients' ports, subnets and hosts that come and go: what is under way is no drift."""
    world, audits = books.world, 0
    network = await network_of(books)
    stopping, serving = asyncio.Event(), asyncio.Lock()

    async def run(failing: Sequence[str] = ()) -> None:
        """Two conductors at once, but one agent: it would not start a guest and fail it at the same time."""
        orders = 1
        while orders:
            await world.conduct()
            async with serving:
                orders = await world.serve_hosts(failing=failing)

    async def build(number: int) -> None:
        for _ in range(6):
            made = await world.boot(network, count=2)
            await run(failing=["r1-h2"] if number else [])
            await world.delete(*made)
            await run()

    async def clients() -> None:
        while not stopping.is_set():
            wanted = PortRequest(network_id=network, project_id=PROJECT)
            made = [(await ports.create_port(world.networks, wanted)).id for _ in range(3)]
            for port_id in made:
                await ports.delete_port(world.networks, port_id)

    async def operators() -> None:
        cabled = 0
        (subnet,) = (item for item in await subnets.list_subnets(world.networks) if item.network_id == network)
        while not stopping.is_set():
            cabled += 1
            await world.hosts(f"h{cabled % 3}", reach=["rack1", f"rack{cabled % 2}"])
            gone = await world.routed(rack1="10.7.0.0/28")
            await networks.delete_network(world.networks, gone.id)
            # the address that is held all the while is in the pool, and is not
            pools = SubnetChanges(pools=((f"10.3.0.{2 + cabled % 2}", "10.3.0.14"),))
            with suppress(SubnetInUse):
                await subnets.update_subnet(world.networks, subnet.id, pools)

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
