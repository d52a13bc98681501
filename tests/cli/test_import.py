"""`roost-manage import-placement` against upstream's own Placement: what it reads, writes, says, and ends with."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from tests.cli.upstream import Upstream, upstream_running
from tests.cluster import Cluster
from tests.launching import run_manage
from tests.memory import roomy_memory

from roost.cli.keystone import KeystoneRefused, credentials_of
from roost.cli.managing.importing import import_placement
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.placement_source import Read, Source, SourceRefused, read_placement
from roost.placement.model import LedgerState
from roost.placement.store import imports as imports_store
from roost.platform.database import Database

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
    "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """One for all tests of the file; each test makes what it needs, and leaves it there."""
    with tempfile.TemporaryDirectory(dir=roomy_memory()) as directory, upstream_running(Path(directory)) as running:
        yield running


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    done = run_manage("import-placement", *arguments, environment={**ENVIRONMENT, **environment})
    return done.returncode, done.stdout, done.stderr


class Importing:
    """Imports into one database, in this process: (exit status, the report that --json prints)."""

    def __init__(self, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.dsn, self.capsys = dsn, capsys

    async def __call__(self, url: str, **options: bool) -> tuple[int, dict[str, Any]]:
        status, out = await self.tell(url, as_json=True, **options)
        return status, msgspec.json.decode(out)

    async def tell(self, url: str, **options: bool) -> tuple[int, str]:
        """(exit status, what people read)."""
        target = LedgerTarget(data_dir=None, database=self.dsn, pg_bin=None)
        status = await import_placement(url, target, token="admin", **options)
        return status, self.capsys.readouterr().out


@pytest.fixture
def report(dsn: str, capsys: pytest.CaptureFixture[str]) -> Importing:
    return Importing(dsn, capsys)


def a_uuid() -> str:
    return str(uuid.uuid4())


class SmallCloud:
    """A host with a NUMA node and a card below it, a custom trait and class, and consumers of two kinds."""

    def __init__(self, upstream: Upstream) -> None:
        self.host, self.node, self.card, self.server, self.untyped, self.aggregate = (a_uuid() for _ in range(6))
        tag = self.host[:8].upper()
        self.trait, self.resource_class, self.name = f"CUSTOM_T_{tag}", f"CUSTOM_C_{tag}", f"host-{tag}"
        upstream.call("PUT", f"/traits/{self.trait}")
        upstream.call("PUT", f"/resource_classes/{self.resource_class}")
        upstream.make_provider(self.host, self.name, MEMORY_MB={"total": 1024, "allocation_ratio": 1.5})
        upstream.make_provider(self.node, f"node-{tag}", self.host, VCPU={"total": 8, "allocation_ratio": 16.0})
        upstream.make_provider(self.card, f"card-{tag}", self.node, **{self.resource_class: {"total": 4}})
        upstream.set_traits(self.card, self.trait, "HW_CPU_X86_VMX")
        upstream.set_aggregates(self.host, self.aggregate)
        upstream.claim(self.server, {self.node: {"VCPU": 2}, self.card: {self.resource_class: 3}})
        upstream.claim(self.server, {self.node: {"VCPU": 2}, self.card: {self.resource_class: 2}})
        upstream.claim(self.untyped, {self.host: {"MEMORY_MB": 512}}, version="1.37")


async def ledger_of(database: Database) -> LedgerState:
    async with database.transaction(snapshot=True) as tx:
        return await imports_store.read_ledger(tx)


async def test_an_import_takes_everything_and_a_repeat_finds_no_difference(
    upstream: Upstream, report: Importing, database: Database
) -> None:
    cloud = SmallCloud(upstream)
    code, dry = await report(upstream.url, dry_run=True)
    assert code == 3
    assert (await ledger_of(database)).providers == {}
    assert {cloud.host, cloud.server, cloud.trait, cloud.resource_class} <= {one["key"] for one in dry["differences"]}

    code, done = await report(upstream.url)
    assert (code, done["written"], done["settled"], done["left_out"]) == (0, True, True, [])
    assert [one["key"] for one in done["differences"]] == [one["key"] for one in dry["differences"]]
    held = await ledger_of(database)
    assert len(held.providers) == done["providers"]
    card, server, untyped = held.providers[cloud.card], held.consumers[cloud.server], held.consumers[cloud.untyped]
    assert (card.parent_uuid, held.providers[cloud.node].parent_uuid) == (cloud.node, cloud.host)
    assert card.traits == {cloud.trait, "HW_CPU_X86_VMX"}
    assert held.providers[cloud.host].placement_aggregates == {cloud.aggregate}
    assert held.providers[cloud.host].inventories["MEMORY_MB"].allocation_ratio == 1.5
    for one in held.providers.values():
        assert one.generation == upstream.call("GET", f"/resource_providers/{one.uuid}")["generation"]
    assert server.allocations == {cloud.node: {"VCPU": 2}, cloud.card: {cloud.resource_class: 2}}
    assert (server.generation, server.consumer_type, server.project_id, server.user_id) == (2, "INSTANCE", "p", "u")
    assert (untyped.generation, untyped.consumer_type) == (1, None)

    for option in ("dry_run", "delete", "overwrite"):
        code, again = await report(upstream.url, **{option: True})
        assert (code, again["differences"], again["written"]) == (0, [], False)


async def test_a_dry_run_shows_exactly_what_changed_and_delete_removes_what_is_gone(
    upstream: Upstream, report: Importing
) -> None:
    cloud, other = SmallCloud(upstream), SmallCloud(upstream)
    assert (await report(upstream.url))[0] == 0
    inventory = {"total": 4, "reserved": 4, "min_unit": 3}
    upstream.set_inventories(cloud.card, {cloud.resource_class: inventory})  # 2 are in use: over its capacity
    upstream.call("DELETE", f"/allocations/{cloud.untyped}")
    upstream.call("DELETE", f"/allocations/{other.server}")
    for gone in (other.card, other.node):
        upstream.call("DELETE", f"/resource_providers/{gone}")
    code, dry = await report(upstream.url, dry_run=True)
    assert code == 3
    found = {(one["change"], one["key"]): one["details"] for one in dry["differences"]}
    assert found.keys() == {
        ("changed", cloud.card),
        ("only in Roost", cloud.untyped),
        ("only in Roost", other.server),
        ("only in Roost", other.card),
        ("only in Roost", other.node),
    }
    parts = {detail["part"]: (detail["roost"], detail["source"]) for detail in found["changed", cloud.card]}
    assert parts.keys() == {"generation", f"inventory {cloud.resource_class}"}
    assert parts["generation"][1] == parts["generation"][0] + 1
    assert parts[f"inventory {cloud.resource_class}"][1] | inventory == parts[f"inventory {cloud.resource_class}"][1]

    code, text = await report.tell(upstream.url, dry_run=True)
    assert code == 3
    lines = [line.split() for line in text.splitlines()]
    assert ["new", "changed", "only", "in", "Roost"] in lines
    assert ["provider", "0", "1", "2"] in lines
    assert ["consumer", other.server, "only", "in", "Roost"] in lines
    assert text.endswith("5 differences. Nothing was written.\n")

    code, kept = await report(upstream.url)
    assert (code, kept["written"]) == (4, True)
    assert {one["key"] for one in kept["differences"] if one["stays"]} == {
        cloud.untyped, other.server, other.card, other.node,
    }  # fmt: skip
    code, text = await report.tell(upstream.url)
    assert code == 4
    assert text.endswith("4 differences left, of what only Roost has: --delete removes it.\n")
    assert (await report(upstream.url, delete=True))[0] == 0
    assert (await report(upstream.url, dry_run=True))[0] == 0


async def test_a_ledger_in_use_is_not_overwritten_by_mistake(
    upstream: Upstream, report: Importing, database: Database
) -> None:
    cloud = SmallCloud(upstream)
    assert (await report(upstream.url))[0] == 0
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE placement.provider SET generation = generation + 1 WHERE uuid = $1", cloud.host
        )
    code, refused = await report(upstream.url)
    assert (code, refused["written"]) == (1, False)
    (obstacle,) = refused["obstacles"]
    assert obstacle.startswith(f"1 provider has a higher generation in Roost than at the source ({cloud.name})")
    code, dry = await report(upstream.url, dry_run=True)
    assert (code, dry["obstacles"]) == (3, [obstacle])
    assert (await report(upstream.url, overwrite=True))[0] == 0
    assert (await report(upstream.url, dry_run=True))[0] == 0


async def test_a_roost_is_a_source_too(upstream: Upstream, dsn: str, report: Importing, data_dir: Path) -> None:
    SmallCloud(upstream)
    cluster = Cluster(data_dir)
    try:
        cluster.serve("placement")
        here = await Database.open(dsn)
        there = await Database.open(cluster.dsn)
        await Importing(cluster.dsn, report.capsys)(upstream.url)
        code, done = await report(cluster.url)
        assert (code, done["settled"], done["left_out"]) == (0, True, [])
        assert done["providers"] > 2
        assert await ledger_of(here) == await ledger_of(there)
        assert (await report(upstream.url, dry_run=True))[0] == 0
        await here.close()
        await there.close()
    finally:
        cluster.close()


def test_a_data_directory_is_made_by_the_import_and_not_by_a_dry_run(upstream: Upstream, data_dir: Path) -> None:
    SmallCloud(upstream)
    where = ("--from", upstream.url, "--data-dir", str(data_dir / "roost"))
    code, out, _ = run(*where, "--dry-run", OS_TOKEN="admin")
    assert code == 3
    assert "Nothing was written." in out
    assert not (data_dir / "roost").exists()
    code, out, errors = run(*where, OS_TOKEN="admin")
    assert code == 0, errors
    assert "Imported: Roost's ledger is as the source." in out
    assert not (data_dir / "roost/postgres/postmaster.pid").exists()
    code, out, _ = run(*where, "--dry-run", OS_TOKEN="admin")
    assert code == 0
    assert "Nothing differs." in out


def test_no_database_is_made_for_a_source_that_does_not_answer(data_dir: Path) -> None:
    code, _, errors = run("--from", "http://127.0.0.1:9", "--data-dir", str(data_dir / "roost"), "--token", "admin")
    assert (code, "GET http://127.0.0.1:9/ failed" in errors) == (1, True)
    assert not (data_dir / "roost").exists()


async def test_a_source_that_is_another_service_is_said_to_be_no_placement() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"versions": {"values": [{"id": "v3.14"}]}}, status=300)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with pytest.raises(SourceRefused) as refused:
            await read(url)
    finally:
        await runner.cleanup()
    assert str(refused.value) == f"{url} is no Placement: GET / was answered by a choice of versions"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--from", "{url}"), 1, "; give --token or the OS_… variables"),
        (("--from", "{url}/nowhere", "--token", "admin"), 1, "was answered 404"),
        (("--from", "{url}", "--token", "admin", "--ca-file", "/nowhere"), 1, "--ca-file /nowhere: No such file"),
        (("--from", "{url}", "--data-dir", "x"), 2, "leave out --data-dir"),
        (("--from", "placement.example"), 2, "expected a URL"),
        ((), 2, "--from"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    upstream: Upstream, dsn: str, arguments: tuple[str, ...], status: int, said: str
) -> None:
    words = [word.format(url=upstream.url) for word in arguments]
    code, _, errors = run(*words, "--database", dsn, "--dry-run")
    assert code == status
    assert said in " ".join(errors.replace("│", "").split())
    assert "Traceback" not in errors


# How it is read.


async def read(url: str, progress: Callable[[str, int, int], None] = lambda *_: None, **options: Any) -> Read:
    async with Source.connect(url, **{"token": "admin", **options}) as source:
        return await read_placement(source, progress)


async def test_what_moves_while_it_is_read_is_read_again(upstream: Upstream) -> None:
    """A server moves to a new provider and another is made when all providers are read and the first consumer is."""
    cloud, new, late = SmallCloud(upstream), a_uuid(), a_uuid()
    moves = 0

    def move(kind: str, done: int, total: int) -> None:
        nonlocal moves
        if kind == "consumers" and moves == 0 and done == total:
            moves += 1
            upstream.make_provider(new, f"new-{new}", VCPU={"total": 8})
            upstream.claim(cloud.server, {new: {"VCPU": 3}})
            upstream.claim(late, {cloud.node: {"VCPU": 1}})

    found = await read(upstream.url, move)
    assert moves == 1
    assert found.settled
    assert found.state.consumers[cloud.server].allocations == {new: {"VCPU": 3}}
    assert found.state.consumers[late].allocations == {cloud.node: {"VCPU": 1}}
    assert found.state == (await read(upstream.url)).state


async def test_a_source_that_never_rests_is_said_to_be_unsettled(upstream: Upstream) -> None:
    cloud = SmallCloud(upstream)

    def move(kind: str, done: int, total: int) -> None:
        if kind == "providers" and done == total:
            upstream.claim(a_uuid(), {cloud.node: {"VCPU": 1}})

    assert not (await read(upstream.url, move)).settled


class Doorman:
    """Stands before a Placement: lets those in who have a token that is still good, and sends every tenth away.

    It is also the Keystone that gives the tokens, each good for `uses` requests.
    """

    def __init__(self, upstream: Upstream, session: aiohttp.ClientSession, *, uses: int) -> None:
        self.upstream, self.session, self.uses = upstream, session, uses
        self.asked: list[Any] = []
        self.left = 0
        self.requests = 0

    async def give_token(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.left = self.uses
        return web.json_response({}, status=201, headers={"X-Subject-Token": f"token-{len(self.asked)}"})

    async def let_in(self, request: web.Request) -> web.Response:
        self.requests += 1
        if self.requests % 10 == 0:
            return web.Response(status=503)
        if request.headers.get("X-Auth-Token") != f"token-{len(self.asked)}" or self.left <= 0:
            return web.Response(status=401, text="who are you?")
        self.left -= 1
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": request.headers.get("OpenStack-API-Version", "")}
        async with self.session.get(self.upstream.url + request.path[len("/placement") :], headers=headers) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")


@pytest.fixture
async def doorman(upstream: Upstream) -> AsyncIterator[tuple[Doorman, str]]:
    async with aiohttp.ClientSession() as session:
        doorman = Doorman(upstream, session, uses=12)
        application = web.Application()
        application.router.add_post("/identity/v3/auth/tokens", doorman.give_token)
        application.router.add_get("/placement/{path:.*}", doorman.let_in)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield doorman, f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()


async def test_tokens_are_had_from_keystone_and_again_and_a_passing_failure_is_tried_again(
    upstream: Upstream, doorman: tuple[Doorman, str]
) -> None:
    SmallCloud(upstream)
    door, url = doorman
    credentials = credentials_of(
        {"OS_AUTH_URL": f"{url}/identity", "OS_USERNAME": "admin", "OS_PASSWORD": "x", "OS_PROJECT_NAME": "admin"}
    )
    assert credentials is not None
    found = await read(f"{url}/placement", token=None, credentials=credentials)
    assert found.settled
    assert found.state == (await read(upstream.url)).state
    assert len(door.asked) > 1
    default = {"id": "default"}
    user = {"name": "admin", "domain": default, "password": "x"}
    assert door.asked[0]["auth"] == {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "admin", "domain": default}},
    }


def test_the_usual_variables_say_who_asks() -> None:
    assert credentials_of({}) is None
    application = credentials_of(
        {
            "OS_AUTH_URL": "http://k/v3/", "OS_APPLICATION_CREDENTIAL_ID": "i", "OS_APPLICATION_CREDENTIAL_SECRET": "s",
        }
    )  # fmt: skip
    assert application is not None
    assert application.tokens_url == "http://k/v3/auth/tokens"
    assert application.body["auth"]["identity"]["application_credential"] == {"id": "i", "secret": "s"}
    system = credentials_of(
        {"OS_AUTH_URL": "http://k", "OS_USER_ID": "u", "OS_PASSWORD": "x", "OS_SYSTEM_SCOPE": "all"}
    )
    assert system is not None
    assert system.body["auth"]["scope"] == {"system": {"all": True}}
    assert system.body["auth"]["identity"]["password"]["user"] == {"id": "u", "password": "x"}
    with pytest.raises(KeystoneRefused, match="OS_PASSWORD is not"):
        credentials_of({"OS_AUTH_URL": "http://k", "OS_USERNAME": "u"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"versions": [{"max_version": "1.27"}]}, "serves the Placement API up to 1.27: 1.28 or later is needed"),
        ({"hello": "world"}, "was not answered as Placement does"),
    ],
)
async def test_what_is_no_such_placement_is_said(body: Any, said: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return web.json_response(body)

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        with pytest.raises(SourceRefused, match=said):
            await read(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()
