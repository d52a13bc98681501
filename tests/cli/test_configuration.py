"""Where the configuration is from, what `roost serve` and `roost-manage` take from it, and what check-config says."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests import launching
from typer.testing import CliRunner

import roost.cli.settings as settings_file
from roost.cli.endings import BAD_INPUT
from roost.cli.manage import app
from roost.cli.managing.check_config import SOUND, WRONG
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.serving.process_counts import choose_pool_size, choose_workers, count_connections
from roost.cli.serving.serve_options import TlsFiles, choose_options
from roost.cli.serving.supervisor import ServeOptions
from roost.cli.settings import read_settings, sources_of
from roost.platform.errors import BadRequest
from roost.platform.tls import ListenerTls


@pytest.fixture(autouse=True)
def no_file_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that is read without being told."""
    file = tmp_path / "etc" / "roost.toml"
    file.parent.mkdir()
    monkeypatch.setattr(settings_file, "DEFAULT_CONFIG", file)
    return file


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def check(*words: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    done = CliRunner().invoke(app, ["check-config", *words, "--json"])
    return done.exit_code, json.loads(done.stdout)


def test_a_later_file_wins_option_by_option_and_the_environment_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "a.toml", "[network]\nreconcile_s = 1\naudit_s = 1\nintent_s = 1")
    second = write(tmp_path / "b.toml", "[network]\naudit_s = 2\nintent_s = 2")
    monkeypatch.setenv("ROOST_NETWORK_INTENT_S", "3")
    network = read_settings([first, second]).network
    assert (network.reconcile_s, network.audit_s, network.intent_s) == (1, 2, 3)


def test_of_a_folder_the_toml_files_are_read_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    for name, seconds in (("20-late.toml", 20), ("10-early.toml", 10), ("30-note.txt", 30)):
        write(folder / name, f"[network]\naudit_s = {seconds}")
    assert read_settings(folder).network.audit_s == 20
    assert read_settings([folder, write(tmp_path / "last.toml", "[network]\naudit_s = 5")]).network.audit_s == 5


def test_without_a_name_the_file_of_the_machine_is_read_if_there_is_one(no_file_of_the_machine: Path) -> None:
    assert sources_of(None) == ()
    write(no_file_of_the_machine, "[network]\naudit_s = 7")
    assert read_settings(None).network.audit_s == 7
    assert read_settings(()).network.audit_s == 300
    assert check()[1]["files"] == [str(no_file_of_the_machine)]


def test_a_relative_path_begins_at_the_folder_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(
        tmp_path / "one" / "roost.toml", '[placement]\npolicy_file = "policy.yaml"\n[serve]\ntls_cert = "/c.pem"'
    )
    two = write(tmp_path / "two" / "roost.toml", '[serve]\ntls_key = "key.pem"')
    settings = read_settings([one, two])
    assert settings.placement.policy_file == str(tmp_path / "one" / "policy.yaml")
    assert (settings.serve.tls_cert, settings.serve.tls_key) == ("/c.pem", str(tmp_path / "two" / "key.pem"))
    monkeypatch.setenv("ROOST_PLACEMENT_POLICY_FILE", "mine.yaml")
    assert read_settings(one).placement.policy_file == "mine.yaml"


@pytest.mark.parametrize(
    ("text", "data_dir", "database", "expected"),
    [
        ("", None, None, ("roost", None, None)),
        ('url = "postgresql://db/roost"', None, None, (None, "postgresql://db/roost", None)),
        ('url_file = "url"', None, None, (None, "postgresql://secret/roost", None)),
        ('data_dir = "/var/lib/roost"\npg_bin = "/usr/lib/pg"', None, None, ("/var/lib/roost", None, "/usr/lib/pg")),
        ('url = "postgresql://db/roost"', "mine", None, ("mine", None, None)),
        ('data_dir = "/var/lib/roost"', None, "postgresql://mine", (None, "postgresql://mine", None)),
    ],
)
def test_the_database_is_the_command_lines_else_the_configurations(
    tmp_path: Path, text: str, data_dir: str | None, database: str | None, expected: tuple[str | None, ...]
) -> None:
    write(tmp_path / "url", "postgresql://secret/roost\n")
    config = write(tmp_path / "roost.toml", f"[database]\n{text}")
    target = LedgerTarget.choose(Path(data_dir) if data_dir else None, database, None, config).resolve()
    found = (target.data_dir, target.database, target.pg_bin)
    assert tuple(None if each is None else str(each) for each in found) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('url = "mysql://db:PASSWORD@db"', "[database] url: expected an address: postgresql://"),
        ('url = "postgresql://db"\nurl_file = "x"', "[database] url and url_file: expected one of them"),
        ('url = "postgresql://db"\ndata_dir = "x"', "[database] url brings its own PostgreSQL"),
        ('url_file = "missing"', "missing cannot be read: No such file"),
        ('url_file = "empty"', "expected postgresql://user:password@host/name in it"),
    ],
)
def test_a_database_that_cannot_be_is_refused_without_its_password(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path / "empty", "\n")
    config = write(tmp_path / "roost.toml", f"[database]\n{text}")
    with pytest.raises(BadRequest) as refused:
        LedgerTarget.choose(None, None, None, config).resolve()
    assert said in str(refused.value)
    assert "PASSWORD" not in str(refused.value)


WRONGS = """
[log]
level = "loud"
requests = 5
[netwrk]
[serve]
worker = 2
"""


def test_every_mistake_is_told_with_its_file_and_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = write(tmp_path / "wrong.toml", WRONGS)
    broken = write(tmp_path / "broken.toml", "[log")
    monkeypatch.setenv("ROOST_NETWORK_AUDIT_S", "often")
    unknown = "ROOST_" + "NETWORK_AUDITS"
    monkeypatch.setenv(unknown, "5")
    status, told = check("--config", str(wrong), "--config", str(broken), "--config", str(tmp_path / "none.toml"))
    places = [(problem["source"], problem["section"], problem["option"]) for problem in told["problems"]]
    assert status == WRONG
    assert sorted(places) == sorted([
        (str(wrong), "log", "level"), (str(wrong), "log", "requests"), (str(wrong), "netwrk", ""),
        (str(wrong), "serve", "worker"), (str(broken), "", ""), (str(tmp_path / "none.toml"), "", ""),
        ("ROOST_NETWORK_AUDIT_S", "network", "audit_s"), (unknown, "", ""),
    ])  # fmt: skip
    with pytest.raises(BadRequest) as refused:
        read_settings([wrong, broken, tmp_path / "none.toml"])
    assert str(refused.value).splitlines() == [problem["text"] for problem in told["problems"]]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ('[serve]\nlisten = "here"', ("serve", "listen"), "expected an address and a port"),
        ('[serve]\nlisten = "0.0.0.0:1"', ("serve", "listen"), "use --auth keystone"),
        ('[serve]\nservices = ["placment"]', ("serve", ""), "no service placment"),
        ('[serve]\ntls_cert = "c.pem"', ("serve", "tls_cert"), "expected both, or neither"),
        ('[serve]\nauth = "keystone"', ("keystone", "auth_url"), "auth_url is needed"),
        ('[serve]\nwith_neutron = true\nservices = ["placement"]', ("serve", "with_neutron"), "url is needed"),
        ('[database]\nurl_file = "none"', ("database", "url_file"), "cannot be read"),
        ('[placement]\npolicy_file = "none.yaml"', ("placement", "policy_file"), "cannot be read"),
        ('[placement_client]\nurl = "ftp://x"', ("placement_client", "url"), "expected an address"),
        ('[neutron]\nurl = "http://n"\namqp_url = "x://:SECRET@h"', ("neutron", "amqp_url"), "expected an address"),
    ],
)
def test_what_does_not_go_together_is_told_too(tmp_path: Path, text: str, place: tuple[str, str], said: str) -> None:
    config = write(tmp_path / "roost.toml", text)
    status, told = check("--config", str(config))
    assert status == WRONG
    problems = [(problem["section"], problem["option"]) for problem in told["problems"]]
    assert place in problems, told["problems"]
    assert any(said in problem["text"] for problem in told["problems"])


def test_a_sound_configuration_is_shown_without_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(
        tmp_path / "roost.toml",
        '[database]\nurl = "postgresql://roost:SECRET@db/roost"\n[keystone]\nauth_url = "http://k"\n'
        'username = "roost"\npassword = "SECRET"\n[serve]\nservices = ["placement"]',
    )
    monkeypatch.setenv("ROOST_NEUTRON_TOKEN", "SECRET")
    done = CliRunner().invoke(app, ["check-config", "--config", str(config)])
    assert (done.exit_code, "SECRET" in done.stdout) == (SOUND, False), done.stdout
    assert f"Files: {config}." in done.stdout
    assert "Nothing is wrong with it." in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["[database]", "url", "postgresql://roost:***@db/roost", str(config)] in rows
    assert ["[neutron]", "token", "***", "ROOST_NEUTRON_TOKEN"] in rows
    assert CliRunner().invoke(app, ["check-config", "--nope"]).exit_code == BAD_INPUT


@pytest.mark.parametrize(
    ("cores", "connections", "others", "workers"),
    [
        (1, 160, 2, 2), (2, 160, 2, 2), (5, 160, 2, 5), (8, 160, 2, 8), (64, 160, 2, 8),
        (8, 97, 0, 8), (8, 60, 2, 6), (8, 20, 1, 1), (8, 5, 2, 1),
    ],
)  # fmt: skip
def test_workers_are_as_many_as_cores_within_bounds_and_connections(
    cores: int, connections: int, others: int, workers: int
) -> None:
    assert choose_workers(cores=cores, connections=connections, others=others) == workers
    processes = workers + others
    pool_size = choose_pool_size(connections=connections, processes=processes)
    assert 4 <= pool_size <= 8
    assert workers == 1 or processes * (pool_size + 3) <= connections


async def test_the_database_says_how_many_connections_it_allows(dsn: str, tmp_path: Path) -> None:
    assert await count_connections(LedgerTarget(data_dir=None, database=dsn, pg_bin=None)) > 10
    assert await count_connections(LedgerTarget(data_dir=tmp_path, database=None, pg_bin=None)) == 160


async def test_all_that_serve_needs_may_be_in_files(dsn: str, tmp_path: Path) -> None:
    write(tmp_path / "conf.d" / "1.toml", '[serve]\nservices = ["placement"]\nlisten = "127.0.0.1:0"\nworkers = 1')
    write(tmp_path / "conf.d" / "2.toml", '[database]\nurl_file = "url"')
    write(tmp_path / "conf.d" / "url", dsn)
    environment = {name: value for name, value in os.environ.items() if name != "ROOST_DATABASE"}
    config = ("--config", str(tmp_path / "conf.d"))
    log = (tmp_path / "log").open("w")
    process = launching.start("serve", *config, "--json", environment=environment, stderr=log, directory=tmp_path)
    assert process.stdout is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line, (tmp_path / "log").read_text()
        answer = json.loads(line)
        assert answer["services"] == ["placement"]
        assert not (tmp_path / "roost").exists(), "no private PostgreSQL"
    finally:
        process.send_signal(15)
        await asyncio.to_thread(process.wait, 30)
        process.stdout.close()
        log.close()
    words = ("placement", "status", "upgrade", "check", *config)
    done = await asyncio.to_thread(launching.run_manage, *words, environment=environment)
    assert done.returncode == 0, done.stdout


SERVED = """
[serve]
services = ["placement", "network"]
listen = "127.0.0.1:1"
agent_listen = "127.0.0.1:2"
metrics_listen = "6"
workers = 3
agent_workers = 4
conductors = 5
auth = "noauth2"
policy = "open"
tls_cert = "/c"
tls_key = "/k"
agent_ca = "/a"
with_neutron = true
[log]
level = "error"
[database]
url = "postgresql://db/roost"
"""
NONE = dict.fromkeys((*settings_file.ServeSettings.__struct_fields__, "pg_template", "placement_url"))
MINE = {
    "services": ["all"], "listen": "127.0.0.1:11", "agent_listen": "127.0.0.1:12", "metrics_listen": "[::1]:16",
    "workers": 13, "agent_workers": 14,
    "conductors": 15, "auth": "keystone", "policy": "default", "with_neutron": None,
}  # fmt: skip


def chosen(config: Path, *, tls: TlsFiles = (None, None, None), **options: object) -> ServeOptions:
    return choose_options(
        read_settings(config), config, target=(None, None, None), log=(None, None, None), tls=tls, beside=False,
        cells=(), **NONE | options,
    )  # fmt: skip


def test_serve_takes_from_the_files_what_the_command_line_does_not_say(tmp_path: Path) -> None:
    config = write(tmp_path / "roost.toml", SERVED)
    told = chosen(config)
    assert (told.services, told.port, told.agent_port) == (("placement", "network"), 1, 2)
    assert (told.metrics_host, told.metrics_port) == ("127.0.0.1", 6)
    assert (told.workers, told.agent_workers, told.conductors) == (3, 4, 5)
    assert (told.auth, told.policy, told.with_neutron, told.log.level) == ("noauth2", "open", True, "error")
    assert told.tls == ListenerTls(cert="/c", key="/k", agent_ca="/a")
    assert (told.target.database, told.config) == ("postgresql://db/roost", (str(config),))
    told = chosen(config, **MINE)
    assert (len(told.services), told.port, told.agent_port) == (4, 11, 12)
    assert (told.metrics_host, told.metrics_port) == ("::1", 16)
    assert (told.workers, told.agent_workers, told.conductors) == (13, 14, 15)
    assert (told.auth, told.policy, told.with_neutron) == ("keystone", "default", True)
    told = chosen(config, tls=(Path("/mine"), Path("/key"), None))
    assert told.tls == ListenerTls(cert="/mine", key="/key", agent_ca=None), "a pair is never mixed"


@pytest.mark.parametrize(
    ("text", "token", "problem"),
    [
        ("", "", None),
        ('token = "t"', "t", None),
        ('token_file = "token"', "of the file", None),
        ('token = "t"\ntoken_file = "token"', None, "[metrics] token and token_file: expected one of them"),
        ('token_file = "missing"', None, "missing cannot be read: No such file"),
        ('token_file = "empty"', None, "expected a token in it"),
    ],
)
def test_the_token_of_the_metrics_may_have_a_file_of_its_own(
    tmp_path: Path, text: str, token: str | None, problem: str | None
) -> None:
    write(tmp_path / "token", "of the file\n")
    write(tmp_path / "empty", "\n")
    config = write(tmp_path / "roost.toml", f"[metrics]\n{text}\n")
    if problem is None:
        assert read_settings(config).metrics.read_token() == token
        assert check("--config", str(config))[0] == SOUND
        return
    with pytest.raises(BadRequest) as refused:
        read_settings(config).metrics.read_token()
    assert problem in str(refused.value)
    status, said = check("--config", str(config))
    assert status == WRONG
    assert problem in said["problems"][0]["text"]
