"""`roost-manage export-placement` against upstream's own Placement: what it writes, says, and ends with."""

import asyncio
import os
import subprocess
import sys
import time
import urllib.error
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.cli.upstream import Upstream, upstream_running

from roost.cli.managing.exporting import export_placement
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.placement_source import Source, SourceRefused, read_placement
from roost.placement.model import ImportedProvider, LedgerState
from roost.placement.rules.exports import without_generations
from roost.placement.service.imports import import_ledger
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform import http_sessions
from roost.platform.database import Database
from roost.seams.placement import ConsumerState, Inventory

MANAGE = [sys.executable, "-c", "from roost.cli.manage import main; main()"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream_running(tmp_path_factory.mktemp("upstream")) as started:
        yield started


@pytest.fixture
def upstream(running: Upstream) -> Upstream:
    """The one of the file, emptied."""
    providers = [item["uuid"] for item in running.call("GET", "/resource_providers")["resource_providers"]]
    for uuid_ in providers:
        for consumer in running.call("GET", f"/resource_providers/{uuid_}/allocations")["allocations"]:
            with suppress(urllib.error.HTTPError):  # of several providers: it is gone already
                running.call("DELETE", f"/allocations/{consumer}")
    while providers:
        for uuid_ in list(providers):
            with suppress(urllib.error.HTTPError):  # it has children
                running.call("DELETE", f"/resource_providers/{uuid_}")
                providers.remove(uuid_)
    for kind, key in (("resource_classes", "name"), ("traits", "")):
        for item in running.call("GET", f"/{kind}")[kind]:
            name = item[key] if key else item
            if name.startswith("CUSTOM_"):
                running.call("DELETE", f"/{kind}/{name}")
    return running


def a_uuid() -> str:
    return str(uuid.uuid4())


def a_provider(name: str, parent: str | None = None, **fields: Any) -> ImportedProvider:
    given: dict[str, Any] = {"inventories": {}, "traits": frozenset(), "placement_aggregates": frozenset(), **fields}
    return ImportedProvider(uuid=a_uuid(), name=name, generation=7, parent_uuid=parent, **given)


def a_consumer(allocations: dict[str, dict[str, int]], consumer_type: str | None = "INSTANCE") -> ConsumerState:
    return ConsumerState(
        consumer_uuid=a_uuid(), generation=3, consumer_type=consumer_type, project_id="p", user_id="u",
        allocations=allocations,
    )  # fmt: skip


def a_state(providers: list[ImportedProvider], consumers: list[ConsumerState]) -> LedgerState:
    return LedgerState(
        resource_classes=frozenset(name for item in providers for name in item.inventories),
        traits=frozenset(name for item in providers for name in item.traits),
        providers={item.uuid: item for item in providers},
        consumers={item.consumer_uuid: item for item in consumers},
    )


def a_cloud() -> LedgerState:
    """A host with a child, a segment that hands out addresses, and claims; the host is over its capacity."""
    aggregate = a_uuid()
    host = a_provider(
        "h1", inventories={"VCPU": Inventory(total=4, reserved=3)}, traits=frozenset({"CUSTOM_GOLD"}),
        placement_aggregates=frozenset({aggregate}),
    )  # fmt: skip
    child = a_provider("h1_numa0", host.uuid, inventories={"CUSTOM_THING": Inventory(total=8, min_unit=2, step_size=2)})
    segment = a_provider(
        "Neutron segment id 1", inventories={"IPV4_ADDRESS": Inventory(total=10)},
        traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}), placement_aggregates=frozenset({aggregate}),
    )  # fmt: skip
    consumers = [
        a_consumer({host.uuid: {"VCPU": 4}, child.uuid: {"CUSTOM_THING": 4}, segment.uuid: {"IPV4_ADDRESS": 1}}),
        a_consumer({segment.uuid: {"IPV4_ADDRESS": 1}}, "PORT"),
        a_consumer({segment.uuid: {"IPV4_ADDRESS": 2}}, None),
    ]
    return a_state([host, child, segment], consumers)


async def fill(database: Database, state: LedgerState) -> None:
    """Have Roost's ledger hold this, and nothing else."""
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    imported = await import_ledger(ledger, state, delete=True, overwrite=True)
    assert imported.left_out == ()


async def export(dsn: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """(exit status, the report that --json prints)."""
    said: list[str] = []
    target = LedgerTarget(data_dir=None, database=dsn, pg_bin=None)
    status = await export_placement(url, target, token="admin", say=said.append, **options)
    return status, msgspec.json.decode(said[0])


async def held(url: str) -> LedgerState:
    """What a Placement has, without generations."""
    async with Source.connect(url, token="admin") as source:
        return without_generations((await read_placement(source, lambda *_: None)).state)


async def assert_equal(upstream: Upstream, wanted: LedgerState) -> None:
    there, here = await held(upstream.url), without_generations(wanted)
    assert there.providers == here.providers
    assert there.consumers == here.consumers


async def test_an_empty_placement_holds_what_roost_holds_and_a_repeat_finds_nothing(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    cloud = a_cloud()
    await fill(database, cloud)
    status, dry = await export(dsn, upstream.url, dry_run=True)
    assert (status, dry["dry_run"]) == (3, True)
    assert (await held(upstream.url)).providers == {}
    assert {item["change"] for item in dry["differences"]} == {"only in Roost"}

    status, done = await export(dsn, upstream.url)
    assert (status, done["remaining"], done["refusals"], done["left_out"]) == (0, [], [], [])
    await assert_equal(upstream, cloud)

    status, again = await export(dsn, upstream.url)
    assert (status, again["differences"]) == (0, [])
    status, dry = await export(dsn, upstream.url, dry_run=True)
    assert (status, dry["differences"]) == (0, [])


async def test_what_changed_is_written_and_what_only_the_other_has_goes_with_delete(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    await fill(database, a_cloud())
    assert (await export(dsn, upstream.url))[0] == 0
    other = a_cloud()  # names are the same, providers others: each name has to change hands
    await fill(database, other)
    status, left = await export(dsn, upstream.url)
    assert status == 4
    assert {item["change"] for item in left["remaining"]} >= {"only in Roost", "only there"}
    assert any("409" in refusal["reason"] for refusal in left["refusals"])
    status, done = await export(dsn, upstream.url, delete=True)
    assert (status, done["remaining"], done["refusals"]) == (0, [], [])
    await assert_equal(upstream, other)


def grown(cloud: LedgerState) -> LedgerState:
    """The same with claims that changed hands on full providers, and a tree that was turned round."""
    host, child, segment = cloud.providers.values()
    inventories = {"IPV4_ADDRESS": Inventory(total=4, max_unit=1), "CUSTOM_IPV6_ADDRESS": Inventory(total=9)}
    traits = frozenset({"HW_CPU_X86_VMX"})
    first, second, third = cloud.consumers.values()
    return a_state(
        [
            msgspec.structs.replace(host, parent_uuid=child.uuid, name="h1_numa0", traits=traits),
            msgspec.structs.replace(child, parent_uuid=None, name="h1"),
            msgspec.structs.replace(segment, inventories=inventories),
        ],
        [
            msgspec.structs.replace(first, project_id="other", allocations={segment.uuid: {"IPV4_ADDRESS": 1}}),
            msgspec.structs.replace(second, allocations={host.uuid: {"VCPU": 4}, segment.uuid: {"IPV4_ADDRESS": 2}}),
            msgspec.structs.replace(third, allocations={segment.uuid: {"IPV4_ADDRESS": 1}}),
        ],
    )  # fmt: skip


async def test_trees_turned_round_and_claims_that_change_hands_on_full_providers_are_written(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    cloud = a_cloud()
    await fill(database, cloud)
    assert (await export(dsn, upstream.url))[0] == 0
    await fill(database, grown(cloud))
    status, done = await export(dsn, upstream.url, delete=True)
    assert (status, done["remaining"], done["refusals"]) == (0, [], [])
    await assert_equal(upstream, grown(cloud))


def kill_an_export(dsn: str, upstream: Upstream, providers_made: int) -> None:
    """Begin an export, and kill it once so many providers are there."""
    environment = {**os.environ, "ROOST_DATABASE": dsn, "OS_TOKEN": "admin"}
    command = [*MANAGE, "export-placement", "--to", upstream.url]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        deadline_s = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline_s:
            if len(upstream.call("GET", "/resource_providers")["resource_providers"]) >= providers_made:
                break
            time.sleep(0.05)  # another process is at work; nothing here can move its clock
        process.kill()


async def test_an_export_that_was_killed_is_finished_by_the_next_one(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    """It is killed at several places on its way; roomy inventories are among what it leaves."""
    hosts = [a_provider(f"h{n}", inventories={"VCPU": Inventory(total=1)}) for n in range(12)]
    cloud = a_state(hosts, [a_consumer({host.uuid: {"VCPU": 3}}) for host in hosts])
    await fill(database, cloud)
    for providers_made in (1, len(hosts)):
        await asyncio.to_thread(kill_an_export, dsn, upstream, providers_made)
    status, done = await export(dsn, upstream.url)
    assert (status, done["remaining"]) == (0, [])
    await assert_equal(upstream, cloud)


async def test_a_name_that_the_other_does_not_know_is_left_out_and_said(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    host = a_provider("h1", inventories={"VCPU": Inventory(total=4)}, traits=frozenset({"HW_CPU_X86_VMX"}))
    await fill(database, a_state([host], []))
    async with database.transaction() as tx:
        await tx.execute("INSERT INTO placement.trait (name) VALUES ('HW_OF_THE_FUTURE')")
        await tx.execute("""
            INSERT INTO placement.provider_trait (provider_id, trait_id)
            SELECT p.id, t.id FROM placement.provider p, placement.trait t WHERE t.name = 'HW_OF_THE_FUTURE'
        """)
    status, done = await export(dsn, upstream.url)
    assert (status, done["remaining"]) == (4, [])
    (left_out,) = done["left_out"]
    assert left_out["key"] == host.uuid
    assert "HW_OF_THE_FUTURE: there is no such standard name there" in left_out["reason"]


async def test_what_ports_hold_is_left_out_when_told_and_removed_where_it_was_brought(
    upstream: Upstream, database: Database, dsn: str
) -> None:
    cloud = a_cloud()
    await fill(database, cloud)
    others = {uuid: item for uuid, item in cloud.consumers.items() if item.consumer_type != "PORT"}
    assert len(cloud.consumers) - len(others) == 1
    status, done = await export(dsn, upstream.url, port_claims=False)
    assert (status, done["remaining"]) == (0, [])
    assert (await held(upstream.url)).consumers.keys() == others.keys()
    assert (await export(dsn, upstream.url))[0] == 0
    assert (await held(upstream.url)).consumers.keys() == cloud.consumers.keys()
    assert (await export(dsn, upstream.url, port_claims=False))[0] == 4
    assert (await export(dsn, upstream.url, port_claims=False, delete=True))[0] == 0
    await assert_equal(upstream, msgspec.structs.replace(cloud, consumers=others))


async def test_people_read_what_was_done(
    upstream: Upstream, database: Database, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = a_cloud()
    await fill(database, cloud)
    target = LedgerTarget(data_dir=None, database=dsn, pg_bin=None)
    assert await export_placement(upstream.url, target, token="admin", dry_run=True) == 3
    assert "Nothing was written." in capsys.readouterr().out
    assert await export_placement(upstream.url, target, token="admin") == 0
    assert "holds what Roost holds, but for generations" in capsys.readouterr().out
    assert await export_placement(upstream.url, target, token="admin") == 0
    assert "Nothing differs." in capsys.readouterr().out


async def test_a_target_that_is_none_is_refused(database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "PAUSE_FIRST_S", 0.0)
    await fill(database, a_state([], []))
    with pytest.raises(SourceRefused, match=r"127\.0\.0\.1:1/ failed: Connection refused"):
        await export(dsn, "http://127.0.0.1:1")
