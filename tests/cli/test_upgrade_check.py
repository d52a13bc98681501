"""`roost-manage status upgrade-check` and `heal_network_info`: what they say, and how they end."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conductor.world import World
from tests.launching import run_manage
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.managing.check_report import FAILURE, READY, WARNING
from roost.cli.managing.old_agents import AgentFacts
from roost.cli.managing.upgrade_check import Facts, list_checks
from roost.compute.model.work import Credentials, Heartbeat
from roost.compute.service import cells
from roost.network.settings import NetworkSettings
from roost.platform.database import Database
from roost.platform.quotas import QuotaUsage

Check = Callable[..., tuple[int, str]]
CONDUCTOR = Heartbeat(cells=(), credentials=Credentials(True), silent_s=1.0)
REFUSED = Heartbeat(cells=(), credentials=Credentials(False, "the token is refused"), silent_s=1.0)
NAMES = [
    "order of builds", "agents are new enough", "addresses are claimed first", "network credentials",
    "placement credentials", "cells", "network info", "quotas",
]  # fmt: skip


def facts(**more: Any) -> Facts:
    agents = AgentFacts(hosts_by_version=more.pop("hosts_by_version", {4: 60}), hosts_below=more.pop("hosts_below", {}))
    values: dict[str, Any] = {
        "agents": agents, "conductors": (CONDUCTOR,), "silent_cells": {},
        "info_differs": 0, "settings": NetworkSettings(), "hosts_closed": (), "version_min": 3,
    }  # fmt: skip
    return Facts(**values | more)


@pytest.mark.parametrize(
    ("changes", "not_ready", "says"),
    [
        pytest.param({}, {}, "Release 2.0 does not start a conductor without them", id="ready"),
        pytest.param(
            {"hosts_by_version": {2: 3, 4: 57}, "hosts_below": {3: ("r1-h1", "r1-h2", "r1-h3")}},
            {"order of builds": WARNING},
            "3 live hosts have agents of a service version below 3 (r1-h1, r1-h2, r1-h3).", id="agents that bind",
        ),
        pytest.param(
            {"hosts_by_version": {1: 1, 4: 59}, "hosts_below": {2: ("r1-h1",), 3: ("r1-h1",)}},
            {"order of builds": WARNING, "addresses are claimed first": WARNING},
            "That is so on every host, since 1 live host has an agent of a service version below 2 (r1-h1).",
            id="agents that make ports",
        ),
        pytest.param(
            {"hosts_closed": tuple(f"h{number}" for number in range(11))},
            {"agents are new enough": WARNING},
            "a service version below 3: h0, h1, h2, h3, h4, h5, h6, h7, h8, h9, .... Start newer agents",
            id="agents that are too old",
        ),
        pytest.param(
            {"conductors": (CONDUCTOR, REFUSED)},
            {"order of builds": WARNING, "addresses are claimed first": WARNING, "network credentials": WARNING},
            "That is so on every host, since network credentials are missing on 1 of 2 conductors.",
            id="one conductor is refused",
        ),
        pytest.param(
            {"conductors": (REFUSED,), "hosts_by_version": {1: 12}, "hosts_below": {2: ("h1", "h2")}},
            {"order of builds": WARNING, "addresses are claimed first": WARNING, "network credentials": WARNING},
            "since network credentials are missing on 1 of 1 conductors, and 12 live hosts have agents of a service "
            "version below 2 (h1, h2, ...).", id="both, and more hosts than are named",
        ),
        pytest.param({"conductors": ()}, {"network credentials": WARNING}, "No conductor is there", id="nobody to ask"),
        pytest.param({"elsewhere": True}, {}, "The Placement service lets Roost in", id="a placement elsewhere"),
        pytest.param(
            {"elsewhere": True, "placement_fault": "401"}, {"placement credentials": WARNING},
            "401: nothing can be placed. Release 2.0", id="placement refuses",
        ),
        pytest.param(
            {"elsewhere": True, "placement_fault": "401", "placement_required": True},
            {"placement credentials": FAILURE}, "no start succeeds", id="placement refuses what is required",
        ),
        pytest.param({"silent_cells": {"cell2": 4}}, {"cells": FAILURE}, "cell2 (4 hosts)", id="a cell without one"),
        pytest.param({"info_differs": 7}, {"network info": WARNING}, "roost-manage heal_network_info", id="info"),
        pytest.param(
            {"over_quota": tuple(QuotaUsage(*of, 5, 6) for of in (("p", "cores"), ("p", "ram"), ("q", "port")))},
            {"quotas": WARNING},
            "More than their quotas have: p (cores 6 of 5, ram 6 of 5); q (port 6 of 5). What is there stays",
            id="quotas",
        ),
        pytest.param(
            {"over_quota": tuple(QuotaUsage(str(number), "ram", 1, 2) for number in range(21))},
            {"quotas": WARNING}, "19 (ram 2 of 1); .... What", id="more quotas than are shown",
        ),
    ],
)  # fmt: skip
def test_each_check_says_what_is_so(changes: dict[str, Any], not_ready: dict[str, int], says: str) -> None:
    checks = list_checks(facts(**changes))
    assert [check.name for check in checks] == NAMES
    assert {check.name: check.result for check in checks if check.result != READY} == not_ready
    assert says in " ".join(check.details for check in checks)


def test_what_is_required_already_is_not_announced() -> None:
    checks = list_checks(facts(settings=NetworkSettings(credentials="require")))
    assert "Release" not in " ".join(check.details for check in checks)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    """`check("--json")`: the command in this process, whose logging is the other tests' too."""
    monkeypatch.setattr("roost.cli.manage.configure_logging", lambda _program: None)
    monkeypatch.setenv("ROOST_COMPUTE_SERVICE_VERSION_MIN", "1")

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["status", "upgrade-check", *words])
        return done.exit_code, done.output

    return run


async def manage(*words: str) -> tuple[int, str, str]:
    """(exit status, standard output, standard error)."""
    done = await asyncio.to_thread(run_manage, *words)
    return done.returncode, done.stdout, done.stderr


async def test_the_commands_say_the_order_and_heal_what_differs(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOST_COMPUTE_SERVICE_VERSION_MIN", "1")
    world = await World.make(database)
    await world.hosts("r1-h1", reach=["rack1"])
    network = await world.routed(rack1="10.1.0.0/28")
    (server,) = await world.boot(network.id)
    await world.run()
    await cells.beat(world.compute, "c0000000-0000-0000-0000-000000000001", [], Credentials(True))
    status, text, _ = await manage("status", "upgrade-check", "--database", dsn, "--json")
    report = msgspec.json.decode(text)
    assert (status, report["result"], [check["name"] for check in report["checks"]]) == (0, "ready", NAMES)
    assert "early: create_ports -> place -> bind -> launch" in report["checks"][0]["details"]
    await world.set_version("r1-h1", 1)
    async with database.connection() as connection:
        await connection.execute("UPDATE compute.server SET network_info = '[]'")
    status, text, _ = await manage("status", "upgrade-check", "--database", dsn)
    assert status == 1, text
    assert "late: place -> launch, since 1 live host has an agent" in text
    status, text, _ = await manage("heal_network_info", "--database", dsn, "--dry-run")
    assert (status, server in text, "differs" in text) == (3, True, True)
    status, text, _ = await manage("heal_network_info", "--database", dsn, "--server", server, "--json")
    assert (status, [item["written"] for item in msgspec.json.decode(text)["servers"]]) == (0, [True])
    status, text, _ = await manage("heal_network_info", "--database", dsn)
    assert (status, text) == (0, "The network info of every server is what its ports are.\n")


async def test_projects_above_the_quotas_that_hold_are_named(
    database: Database, dsn: str, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World.make(database)
    await world.boot(count=11)
    status, text = await asyncio.to_thread(check, "--database", dsn, "--json")
    assert "No project has more than its quotas." in text, "nobody is known without Keystone"
    monkeypatch.setenv("ROOST_SERVE_AUTH", "keystone")
    status, text = await asyncio.to_thread(check, "--database", dsn, "--json")
    assert (status, "project (instances 11 of 10)" in text) == (WARNING, True), text
    monkeypatch.setenv("ROOST_COMPUTE_QUOTA_INSTANCES", "11")
    status, text = await asyncio.to_thread(check, "--database", dsn, "--json")
    assert "No project has more than its quotas." in text


async def test_a_cell_without_a_conductor_ends_the_command_with_2(database: Database, dsn: str, check: Check) -> None:
    world = await World.make(database)
    await world.hosts("h1", cell="cell2")
    async with database.connection() as connection:
        await connection.execute("UPDATE compute.host SET cell_silent = true")
    status, text = await asyncio.to_thread(check, "--database", dsn)
    assert (status, "No conductor of cell2 (1 hosts) is there" in text) == (FAILURE, True), text


async def test_the_promise_is_weaker_on_every_host_because_of_the_oldest_agents(
    database: Database, dsn: str, check: Check
) -> None:
    world = await World.make(database)
    names = [f"r1-h{number:02}" for number in range(1, 15)]
    await world.hosts(*names, reach=["rack1"])
    for name, version in zip(names, [1, 1, *[2] * 11, 3], strict=True):
        await world.set_version(name, version)

    async def details() -> tuple[int, str, str]:
        """(exit status, of the order, of the promise)."""
        await cells.beat(world.compute, "c0000000-0000-0000-0000-000000000001", [], Credentials(True))
        status, text = await asyncio.to_thread(check, "--database", dsn, "--json")
        checks = {one["name"]: one["details"] for one in msgspec.json.decode(text.splitlines()[-1])["checks"]}
        return status, checks["order of builds"], checks["addresses are claimed first"]

    status, order, promise = await details()
    assert status == WARNING
    assert "late: place -> launch, since 2 live hosts have agents of a service version below 2" in order
    assert f"13 live hosts have agents of a service version below 3 ({', '.join(names[:10])}, ...)." in order
    assert promise.endswith(
        "That is so on every host, since 2 live hosts have agents of a service version below 2 (r1-h01, r1-h02)."
    )
    for name in names[:2]:
        await world.set_version(name, 2)
    status, order, promise = await details()
    assert status == WARNING
    assert "early-create: create_ports -> place -> launch, since 13 live hosts" in order
    assert "every host" not in promise
    for name in names:
        await world.set_version(name, 3)
    assert (await details())[0] == READY


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--data-dir", "DIRECTORY"], "there is no database in", id="no database"),
        pytest.param(["--database", "postgresql://roost@127.0.0.1:1/roost"], "no PostgreSQL answers", id="away"),
        pytest.param(["--database", "DSN", "--config", "FILE"], "roost.toml", id="a broken roost.toml"),
        pytest.param(["--database", "DSN", "--config", "MISSING"], "missing.toml", id="no roost.toml"),
        pytest.param(["--database", "DSN"], "msgspec.ValidationError", id="an exception in a check"),
        pytest.param(["--nope"], "No such option", id="a wrong option"),
        pytest.param(["--database", "DSN", "--data-dir", "x"], "leave out --data-dir", id="two targets"),
        pytest.param(["stray"], "unexpected extra argument", id="a word too many"),
    ],
)  # fmt: skip
async def test_a_check_that_cannot_be_made_ends_with_255_whatever_the_reason(
    check: Check, database: Database, dsn: str, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "roost.toml").write_text("[network\n")
    places = {
        "DIRECTORY": str(tmp_path), "DSN": dsn, "FILE": str(tmp_path / "roost.toml"),
        "MISSING": str(tmp_path / "missing.toml"),
    }  # fmt: skip
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO compute.conductor_heartbeat (id, cells, credentials) VALUES (gen_random_uuid(), '{}', '{}')"
        )
    status, text = await asyncio.to_thread(check, *(places.get(word, word) for word in words))
    assert (status, says in " ".join(text.split())) == (255, True), text
