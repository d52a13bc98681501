"""`roost-manage convert-config`: what becomes of upstream's options; the table and the reference have them all."""

import json
import tomllib
from pathlib import Path

import pytest
from placement.conf import opts
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.managing.convert_config import DECIDE, DONE
from roost.cli.managing.upstream_options import OPTIONS, To, flag, seconds, table, text, whole, words
from roost.cli.settings import Settings, read_settings
from roost.platform.errors import BadRequest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "upstream-options.md"
ORDINARY = """
[DEFAULT]
debug = true
log-file = /var/log/placement/api.log
[placement]
randomize_allocation_candidates = True
max_allocation_candidates = 1000
[keystone_authtoken]
auth_url = https://keystone.example:5000
auth_type = password
username = placement
password = p"a\\ss
service_token_roles = service, admin
memcached_servers = a:11211,
 b:11211
[oslo_policy]
enforce_new_defaults = false
[cors]
allowed_origin = https://horizon.example
"""


def convert(tmp_path: Path, content: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "placement.conf"
    file.write_text(content)
    done = CliRunner().invoke(app, ["convert-config", str(file), *options])
    return done.exit_code, done.stdout


def test_a_configuration_becomes_one_that_roost_reads(tmp_path: Path) -> None:
    status, toml = convert(tmp_path, ORDINARY)
    assert status == DONE, toml
    (tmp_path / "roost.toml").write_text(toml)
    settings = read_settings(tmp_path / "roost.toml")
    assert settings.placement.randomize_allocation_candidates
    assert settings.placement.max_allocation_candidates == 1000
    assert not settings.placement.enforce_new_defaults
    assert settings.keystone.password == 'p"a\\ss'
    assert settings.keystone.service_token_roles == ("service", "admin")
    assert settings.cors.allowed_origin == ("https://horizon.example",)
    assert (settings.log.level, settings.log.format, settings.log.file) == (
        "debug", "oslo", "/var/log/placement/api.log"
    )  # fmt: skip
    assert "#   [keystone_authtoken] memcached_servers: not needed" in toml


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[placement_database]\nconnection = mysql+pymysql://p:SECRET@db/placement", "roost serve --database"),
        ("[DEFAULT]\nlog_dir = /var/log", "`[log] file` is a whole path"),
        ("[placement]\nnonsense = 1", "does not know it"),
        ("[placement]\nmax_allocation_candidates = many", "its value 'many' is not as upstream has it"),
    ],
)
def test_what_is_left_to_decide_has_a_status_of_its_own_and_tells_no_secret(
    tmp_path: Path, line: str, said: str
) -> None:
    status, toml = convert(tmp_path, line)
    assert status == DECIDE
    assert said in toml
    assert "SECRET" not in toml
    tomllib.loads(toml)


def test_json_has_the_options_and_the_remarks(tmp_path: Path) -> None:
    status, document = convert(tmp_path, "[DEFAULT]\nuse_json = on\n[api]\nauth_strategy = keystone", "--json")
    told = json.loads(document)
    assert (status, told["options"]) == (DECIDE, {"log": {"format": "json"}})
    assert [(remark["option"], remark["decide"]) for remark in told["remarks"]] == [
        ("use_json", False), ("auth_strategy", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"), [("[placement\n", "line 1"), ("x\n", "line 1"), (None, "cannot be read: No such file")]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "placement.conf"
    if content is not None:
        file.write_text(content)
    done = CliRunner().invoke(app, ["convert-config", str(file)])
    assert done.exit_code == 1
    assert str(file) in done.stderr
    assert said in done.stderr


def test_every_option_of_upstream_is_in_the_table() -> None:
    upstream = {
        (getattr(group, "name", group), option.name) for group, options in opts.list_opts() for option in options
    }
    assert len(upstream) > 20
    assert sorted(upstream - OPTIONS.keys()) == []


def test_every_option_of_the_table_is_one_of_roosts_and_takes_what_is_converted(tmp_path: Path) -> None:
    examples = {text: "x", flag: "yes", whole: "7", seconds: "7", words: "a, b"}
    particular = {"allocation_candidates_generation_strategy": "depth-first"}
    for (section, option), target in OPTIONS.items():
        if isinstance(target, To):
            assert target.section in Settings.__struct_fields__
            value = particular.get(option, examples[target.convert])
            _, toml = convert(tmp_path, f"[{section}]\n{option} = {value}")
            (tmp_path / "roost.toml").write_text(toml)
            read_settings(tmp_path / "roost.toml")


def test_the_reference_is_the_table() -> None:
    assert table() in REFERENCE.read_text()


def test_a_flag_is_one_of_upstreams_words() -> None:
    assert (flag("On"), flag("0"), seconds("0.5"), words("a,,b ")) == (True, False, 0.5, ["a", "b"])
    with pytest.raises(ValueError, match="true or false"):
        flag("maybe")
    with pytest.raises(BadRequest):
        read_settings("/nonexistent/roost.toml")
