"""`--auth` and `--policy` of `roost serve`: what is refused at once, and a listener that asks who calls."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import ROOST, Cluster, cluster

from roost.cli.access_words import PRESETS, check_policy_word
from roost.platform.errors import BadRequest

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve(environment={"ROOST_CORS_ALLOWED_ORIGIN": "http://horizon.example.com"}, auth="noauth2")
        yield made


def ask(url: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str]]:
    """(status, headers in lower case)."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=10) as response:
            return response.status, {name.lower(): value for name, value in response.headers.items()}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/healthz", (200, 200, 200)),
        ("/metrics", (200, 200, 200)),
        ("/agent/v1", (200, 200, 200)),
        ("/placement", (200, 200, 200)),
        ("/placement/", (200, 200, 200)),
        ("/network/", (200, 200, 200)),
        ("/network/v2.0", (200, 200, 200)),
        ("/compute/", (200, 200, 200)),
        ("/compute/v2.1/", (200, 200, 200)),
        ("/placement/nothing", (401, 404, 404)),
        ("/network/v2.0/networks", (401, 403, 200)),
        ("/compute/v2.1/flavors", (401, 403, 200)),
        ("/nothing", (401, 404, 404)),
    ],
)
def test_what_nobody_a_user_and_an_admin_get(guarded: Cluster, path: str, statuses: tuple[int, ...]) -> None:
    callers: list[dict[str, str]] = [{}, {"X-Auth-Token": "user"}, {"X-Auth-Token": "admin"}]
    assert tuple(ask(guarded.url + path, headers)[0] for headers in callers) == statuses


def test_agents_ask_elsewhere_and_need_no_token(guarded: Cluster) -> None:
    with urllib.request.urlopen(f"{guarded.url}/agent/v1", timeout=10) as response:
        agents = json.load(response)["url"]
    assert ask(f"{agents}/nothing")[0] == 404


def test_cors_of_the_configuration_is_in_front(guarded: Cluster) -> None:
    _, headers = ask(f"{guarded.url}/placement", {"Origin": "http://horizon.example.com"})
    assert headers["access-control-allow-origin"] == "http://horizon.example.com"
    assert "access-control-allow-origin" not in ask(f"{guarded.url}/placement", {"Origin": "http://other.example"})[1]


def test_noauth2_warns_that_it_is_for_tests(guarded: Cluster) -> None:
    assert "for tests only" in guarded.logs()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--auth", "basic"), 2, "expected none, noauth2"),
        (("--policy", "default"), 2, "--policy needs callers that are known"),
        (("--auth", "noauth2", "--policy", "nosuch"), 2, "no file nosuch: expected default, legacy-rbac"),
        (("--auth", "noauth2", "--policy", "broken.yaml"), 1, "broken.yaml is not YAML"),
    ],
)
def test_a_mistake_ends_it_with_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "broken.yaml").write_text("{")
    done = subprocess.run(
        [*ROOST, "serve", "placement", "--listen", "127.0.0.1:0", *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**ENVIRONMENT, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == status
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_policy_word_is_a_preset_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check_policy_word(name) for name in PRESETS] == list(PRESETS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    assert check_policy_word("mine.yaml") == str(tmp_path / "mine.yaml")
    with pytest.raises(BadRequest):
        check_policy_word("other.yaml")
