"""`--auth` and `--policy` of `roost serve`: what is refused at once, and a listener that asks who calls."""

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from tests import launching
from tests.cluster import Cluster, cluster, until
from tests.platform import asgi
from tests.platform.asgi import say_who
from tests.platform.fake_keystone import DOMAIN, FakeKeystone, Today

from roost.cli.serving.access import guarded
from roost.cli.serving.roles import PRESETS, check_policy_word
from roost.platform.errors import BadRequest
from roost.platform.settings import CorsSettings, ProxySettings

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "three-racks.yaml"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
    "PYTHONPATH": str(ROOT / "src"),
}


@pytest.fixture(scope="module")
def guarded_cloud() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve(environment={"ROOST_CORS_ALLOWED_ORIGIN": "http://horizon.example.com"}, auth="noauth2")
        yield made


@pytest.fixture
async def keystone() -> AsyncIterator[FakeKeystone]:
    server = FakeKeystone(world=Today())
    await server.start()
    yield server
    await server.stop()


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
        ("/metrics", (404, 404, 404)),
        ("/metrics/openstack", (404, 404, 404)),
        ("/agent/v1", (200, 200, 200)),
        ("/placement", (200, 200, 200)),
        ("/placement/", (200, 200, 200)),
        ("/placement/openapi.json", (200, 200, 200)),
        ("/network/", (200, 200, 200)),
        ("/network/v2.0", (200, 200, 200)),
        ("/compute/", (200, 200, 200)),
        ("/compute/v2.1/", (200, 200, 200)),
        ("/placement/nothing", (401, 404, 404)),
        ("/network/v2.0/networks", (401, 200, 200)),
        ("/network/v2.0/segments", (401, 403, 200)),
        ("/compute/openapi.json", (200, 200, 200)),
        ("/compute/v2.1/flavors", (401, 200, 200)),
        ("/compute/v2.1/os-hypervisors", (401, 403, 200)),
        ("/nothing", (401, 404, 404)),
    ],
)
def test_what_nobody_a_user_and_an_admin_get(guarded_cloud: Cluster, path: str, statuses: tuple[int, ...]) -> None:
    callers: list[dict[str, str]] = [{}, {"X-Auth-Token": "user"}, {"X-Auth-Token": "admin"}]
    assert tuple(ask(guarded_cloud.url + path, headers)[0] for headers in callers) == statuses


def test_agents_ask_elsewhere_and_need_a_token_of_their_own(guarded_cloud: Cluster) -> None:
    with urllib.request.urlopen(f"{guarded_cloud.url}/agent/v1", timeout=10) as response:
        agents = json.load(response)["url"]
    assert ask(f"{agents}/nothing")[0] == 401
    assert ask(f"{agents}/hosts", {"X-Auth-Token": "admin"})[0] == 401
    assert ask(agents.replace("/agent/v1", "/healthz"))[0] == 200


def test_cors_of_the_configuration_is_in_front(guarded_cloud: Cluster) -> None:
    _, headers = ask(f"{guarded_cloud.url}/placement", {"Origin": "http://horizon.example.com"})
    assert headers["access-control-allow-origin"] == "http://horizon.example.com"
    assert (
        "access-control-allow-origin"
        not in ask(f"{guarded_cloud.url}/placement", {"Origin": "http://other.example"})[1]
    )


def test_noauth2_warns_that_it_is_for_tests(guarded_cloud: Cluster) -> None:
    assert guarded_cloud.said("for tests only")


async def test_keystone_says_who_calls_and_roost_serves_on_while_it_is_away(keystone: FakeKeystone) -> None:
    options = {"AUTH_URL": keystone.url, "USERNAME": "roost", "PASSWORD": "secret", "TOKEN_CACHE_S": "1"}
    environment = {f"ROOST_KEYSTONE_{name}": value for name, value in options.items()}
    admin, member = ({"X-Auth-Token": keystone.token(role)} for role in ("admin", "member"))
    with cluster() as made:
        await asyncio.to_thread(made.serve, "compute", auth="keystone", workers=2, environment=environment)

        async def status(path: str, headers: dict[str, str] | None = None) -> int:
            return (await asyncio.to_thread(ask, made.url + path, headers))[0]

        refused, headers = await asyncio.to_thread(ask, f"{made.url}/v2.1/flavors")
        assert (refused, headers["www-authenticate"]) == (401, f'Keystone uri="{keystone.url}"')
        asked = (admin, member, {"X-Auth-Token": "x"})
        assert [await status("/v2.1/os-services", one) for one in asked] == [200, 403, 401]
        assert [await status(path) for path in ("/", "/v2.1/", "/compute", "/healthz")] == [200] * 4

        await keystone.stop()

        async def cut_off() -> bool:
            return await status("/v2.1/flavors", admin) == 503

        await until(cut_off, what="a token is remembered longer than said")
        assert [await status("/healthz"), await status("/")] == [200, 200]
        await keystone.start()

        async def back() -> bool:
            return [await status("/v2.1/flavors", admin) for _ in range(4)] == [200] * 4

        await until(back)


async def test_load_takes_a_token_or_the_variables_of_a_cloud(keystone: FakeKeystone, tmp_path: Path) -> None:
    cloud_file = tmp_path / "cloud.yaml"
    cloud_file.write_text(EXAMPLE.read_text())
    options = {"AUTH_URL": keystone.url, "USERNAME": "roost", "PASSWORD": "secret"}
    environment = {f"ROOST_KEYSTONE_{name}": value for name, value in options.items()}
    known_by = {
        "OS_AUTH_URL": keystone.url, "OS_USERNAME": "roost", "OS_USER_DOMAIN_NAME": "Default", "OS_PASSWORD": "secret",
        "OS_PROJECT_NAME": "service", "OS_PROJECT_DOMAIN_NAME": "Default",
    }  # fmt: skip
    with cluster() as made:
        await asyncio.to_thread(made.serve, "all", auth="keystone", environment=environment)

        async def load(*arguments: str, **variables: str) -> tuple[int, str]:
            """(exit status, what it said) of a load of three racks."""
            words = ("load", str(cloud_file), "--api", made.url, *arguments)
            done = await asyncio.to_thread(launching.run, *words, environment={**ENVIRONMENT, **variables})
            return done.returncode, done.stdout or done.stderr

        status, said = await load()
        assert status == 1
        assert "was answered 401" in said
        assert said.endswith("; give --token or the OS_… variables\n")
        status, said = await load("--token", "expired")
        assert (status, "was answered 401" in said, "give --token" in said) == (1, True, False)
        refused = "refuses the OS_… variables: the user, its password or secret, or the project is wrong"
        assert await load(**known_by | {"OS_PASSWORD": "wrong"}) == (
            1, f"roost: Keystone at {keystone.url}/v3/auth/tokens {refused}\n"
        )  # fmt: skip
        shared = EXAMPLE.read_text().replace("- name: public", "- name: public\n    shared: true")
        cloud_file.write_text(shared)
        assert await load(**known_by) == (0, "Created 1 flavor, 1 network, 3 segments, 3 subnets, 12 hosts.\n")
        nothing = "Nothing to create: 1 flavor, 1 network, 3 segments, 3 subnets, 12 hosts are there already.\n"
        assert await load("--token", keystone.token("admin")) == (0, nothing)
        assert await load(OS_TOKEN=keystone.token("admin")) == (0, nothing)
        member = {"X-Auth-Token": keystone.token("member", project={"id": "p2", "name": "p2", "domain": DOMAIN})}
        async with httpx.AsyncClient(base_url=made.url, headers=member) as client:
            networks = (await client.get("/network/v2.0/networks")).json()["networks"]
        assert [(network["name"], network["shared"]) for network in networks] == [("public", True)]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--auth", "basic"), 2, "expected none, noauth2, keystone"),
        (("--auth", "keystone"), 1, "[keystone] auth_url is needed, in the file of --config: expected an address"),
        (("--policy", "default"), 2, "--policy needs callers that are known"),
        (("--auth", "noauth2", "--policy", "nosuch"), 2, "no file nosuch: expected default, legacy-rbac"),
        (("--auth", "noauth2", "--policy", "broken.yaml"), 1, "broken.yaml is not YAML"),
    ],
)
def test_a_mistake_ends_it_with_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    (tmp_path / "broken.yaml").write_text("{")
    words = ("serve", "placement", "--listen", "127.0.0.1:0", *arguments)
    done = launching.run(*words, directory=tmp_path, environment={**ENVIRONMENT, "COLUMNS": "200"})
    assert done.returncode == status
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_policy_file_is_checked_for_every_service_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('"create_network": "rule:nosuch_rule"\n')
    words = ("serve", "all", "--listen", "127.0.0.1:0", "--auth", "noauth2", "--policy", "policy.yaml")
    done = launching.run(*words, directory=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("create_network refers to rule:nosuch_rule, which neither the file nor Roost defines for it")
    assert not (tmp_path / "roost").exists()


@pytest.mark.parametrize("policy", [None, *PRESETS])
async def test_of_the_presets_only_cors_lets_pages_in(policy: str | None) -> None:
    app = guarded(
        say_who,
        keystone=None,
        auth="noauth2",
        policy=policy,
        services=("placement",),
        proxy=ProxySettings(),
        cors=CorsSettings(),
    )
    asked = {
        "Origin": "http://valid.example.com",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "openstack-api-version",
    }
    answer = await asgi.ask(app, "/", asked, method="OPTIONS")
    if policy == "cors":
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "http://valid.example.com"
    else:
        assert answer.status == 405
        assert "access-control-allow-origin" not in answer.headers


def test_a_policy_word_is_a_preset_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check_policy_word(name) for name in PRESETS] == list(PRESETS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    assert check_policy_word("mine.yaml") == str(tmp_path / "mine.yaml")
    with pytest.raises(BadRequest):
        check_policy_word("other.yaml")
