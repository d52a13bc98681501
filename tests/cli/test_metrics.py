"""One question at /metrics is answered for all processes of a server."""

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster import Cluster, cluster, until
from tests.faults.test_connections import processes
from tests.ports import free_port


@pytest.fixture
def roost() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve(workers=3)
        yield made


def samples(roost: Cluster, name: str) -> list[tuple[dict[str, str], float]]:
    """The samples of that name."""
    with urllib.request.urlopen(f"{roost.url}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


EVERYBODY = {"api-1", "api-2", "api-3", "agent-api-1", "conductor-1"}


async def all_processes_up(roost: Cluster) -> None:
    async def are_up() -> bool:
        up = {labels["process"] for labels, value in samples(roost, "roost_process_up") if value == 1}
        return up == EVERYBODY

    await until(are_up)


def call(roost: Cluster, path: str) -> None:
    """One request on a connection of its own, which any worker may get."""
    with urllib.request.urlopen(roost.url + path, timeout=10) as answer:
        answer.read()


async def test_any_worker_answers_for_all_processes_and_every_request_is_counted(roost: Cluster) -> None:
    for _ in range(30):
        call(roost, "/compute/v2.1/servers")
    await all_processes_up(roost)
    for _ in range(5):  # whoever is asked
        counted = {
            labels["process"]: value
            for labels, value in samples(roost, "roost_operation_seconds_count")
            if (labels["method"], labels["path"], labels["status"]) == ("GET", "/v2.1/servers", "200")
        }
        assert sum(counted.values()) == 30
        assert len(counted) > 1, "thirty connections went to one of three workers"


async def test_a_process_that_does_not_answer_is_named_and_the_others_are_told(roost: Cluster) -> None:
    await all_processes_up(roost)
    (listener,) = processes(roost, "agent-api")
    os.kill(listener, signal.SIGSTOP)
    expected = {name: 0 if name == "agent-api-1" else 1 for name in EVERYBODY}

    async def is_named() -> bool:
        return {labels["process"]: value for labels, value in samples(roost, "roost_process_up")} == expected

    try:
        await until(is_named)  # what was told before is kept for a while
    finally:
        os.kill(listener, signal.SIGCONT)


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_who_is_not_known_reads_metrics_where_only_this_machine_can_or_with_their_token(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "token").write_text("s3cret\n")
    variables = {"ROOST_METRICS_TOKEN_FILE": str(tmp_path / "token")}
    with cluster() as made:
        made.serve(auth="noauth2", environment=variables, **{"metrics-listen": port})
        listener = f"http://127.0.0.1:{port}"
        for path in ("/metrics", "/metrics/openstack"):
            main = made.url + path
            assert [status_of(main), status_of(main, **{"X-Auth-Token": "admin"})] == [401, 401]
            assert [status_of(main, Authorization=f"Bearer {word}") for word in ("s3cre", "s3cret")] == [401, 200]
            assert status_of(listener + path, Host="evil.example", Authorization="Bearer s3cret") == 421
            assert status_of(listener + path, Authorization="Bearer s3cret") == 200
        assert [status_of(listener + path) for path in ("/metrics", "/metrics/openstack")] == [200, 401]
        assert status_of(f"{listener}/placement") == 404
        metrics = urllib.request.urlopen(f"{listener}/metrics", timeout=10).read().decode()
        assert 'roost_process_up{process="conductor-1"} 1.0' in metrics
