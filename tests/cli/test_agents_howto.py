"""Every command of docs/howto/agents.md, in order, as a shell runs it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import Cluster, cluster
from tests.ports import free_port

HOWTO = (Path(__file__).parents[2] / "docs" / "howto" / "agents.md").read_text()
AGENT_LISTENS_S = 60.0


@pytest.fixture
def made() -> Iterator[Cluster]:
    """Ends the processes that the commands leave running."""
    with cluster() as made:
        yield made


def blocks() -> list[list[str]]:
    return [block.splitlines() for block in re.findall(r"```console\n(.*?)```", HOWTO, re.DOTALL)]


def test_the_commands_let_an_agent_in_and_revoke_its_first_token(made: Cluster) -> None:
    folder, ports = made.directory, {"8778": str(free_port()), "8779": str(free_port())}
    programs = folder / "bin"
    programs.mkdir()
    for program, module in (("roost", "roost.cli.main"), ("roost-manage", "roost.cli.manage")):
        (programs / program).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (programs / program).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def with_ports(line: str) -> str:
        return re.sub(r"\b877[89]\b", lambda port: ports[port[0]], line)

    def shell(line: str) -> str:
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    def start(line: str) -> subprocess.Popen[str]:
        words = [word if not (folder / word).is_file() else str(folder / word) for word in with_ports(line).split()]
        assert words[0] == "roost"
        return made.spawn(*words[1:], directory=folder)

    certificates, serving, tokens, agents, accepting, changes = blocks()
    for line in certificates:
        shell(line)
    serve = start(serving[0])
    assert serve.stdout is not None
    assert f"at https://127.0.0.1:{ports['8778']}" in serve.stdout.readline(), made.logs()
    listed = [shell(line) for line in tokens][-1]
    (first,) = re.findall(r"^([0-9a-f-]{36}) +rack1 +rack1-\*", listed, re.MULTILINE)
    assert (folder / "rack1.token").stat().st_mode & 0o077 == 0
    start(agents[0])

    def tokens_used() -> list[bool]:
        listed = json.loads(shell("roost-manage agent-token list --json"))
        return [token["last_used_on"] is not None for token in listed if token["revoked_at"] is None]

    until_so(tokens_used, [True], made)

    def waiting() -> list[bool]:
        return [host["waiting"] for host in json.loads(shell("roost-manage host list --json"))]

    until_so(waiting, [True], made)
    assert "rack1-h1" in shell(accepting[0])
    assert shell(accepting[1]) == "Accepted: rack1-h1\n"
    assert waiting() == [False]
    for line in changes:
        shell(line.replace("ID", first) if "revoke" in line else line)
    until_so(tokens_used, [True], made)
    assert "does not let this agent in any more; its guests run on" in made.logs()
    assert "the API lets this agent in again" in made.logs()


def until_so(fact: object, wanted: object, made: Cluster) -> None:
    assert callable(fact)
    deadline = time.monotonic() + AGENT_LISTENS_S
    while fact() != wanted:
        assert time.monotonic() < deadline, made.logs()
        time.sleep(0.2)  # another process is at work; nothing here can move its clock
