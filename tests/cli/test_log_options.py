"""`--log-level`, `--log-format` and `--log-file`: they count before the environment and the file, and are obeyed."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path

import pytest
import typer
from tests import launching
from tests.cluster import cluster, until

from roost.cli.serving.log_options import choose_log
from roost.cli.settings import read_settings
from roost.platform.settings import LogSettings

FILE = '[log]\nlevel = "error"\nformat = "json"\nfile = "/var/log/of-the-file"\nslow_request_s = 7\n'


@pytest.mark.parametrize(
    ("variables", "options", "expected"),
    [
        pytest.param({}, (None, None, None), ("error", "json", "/var/log/of-the-file"), id="the file alone"),
        pytest.param({}, ("debug", None, None), ("debug", "json", "/var/log/of-the-file"), id="a level"),
        pytest.param({}, (None, "oslo", None), ("error", "oslo", "/var/log/of-the-file"), id="a format"),
        pytest.param({}, (None, None, Path("/log/mine")), ("error", "json", "/log/mine"), id="a file"),
        pytest.param(
            {"ROOST_LOG_LEVEL": "warning", "ROOST_LOG_FORMAT": "console"}, (None, "oslo", None),
            ("warning", "oslo", "/var/log/of-the-file"), id="the environment before the file, an option before both",
        ),
    ],
)  # fmt: skip
def test_options_count_then_the_environment_then_the_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    options: tuple[str | None, str | None, Path | None],
    expected: tuple[str, str, str],
) -> None:
    config = tmp_path / "roost.toml"
    config.write_text(FILE)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    chosen = choose_log(read_settings(config).log, *options)
    assert (chosen.level, chosen.format, chosen.file) == expected
    assert chosen.slow_request_s == 7, "what has no option is the file's"


def test_a_relative_log_file_is_where_the_command_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose_log(LogSettings(), None, None, Path("roost.log")).file == str(tmp_path / "roost.log")


@pytest.mark.parametrize(("option", "level", "format_"), [("--log-level", "loud", None), ("--log-format", None, "xml")])
def test_a_wrong_word_is_refused_with_the_right_ones(option: str, level: str | None, format_: str | None) -> None:
    words = "debug, info, warning, error" if level else "auto, console, json, oslo"
    with pytest.raises(typer.BadParameter, match=f"{option} {level or format_}: expected {words}"):
        choose_log(LogSettings(), level, format_, None)


def test_a_wrong_word_ends_serve_with_status_2(tmp_path: Path) -> None:
    ended = launching.run("serve", "placement", "--data-dir", str(tmp_path / "data"), "--log-level", "loud")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--log-level loud: expected debug" in ended.stderr
    assert not (tmp_path / "data").exists(), "nothing was started"


@pytest.mark.parametrize("format_", ["json", "oslo"])
async def test_all_processes_write_the_file_in_the_format_and_from_the_level(
    dsn: str, tmp_path: Path, format_: str
) -> None:
    file = tmp_path / "roost.log"
    options = {"database": dsn, "log-file": str(file), "log-format": format_}
    with cluster({}) as made:
        await asyncio.to_thread(made.serve, "placement", **options)
        await asyncio.to_thread(_get, f"{made.url}/resource_providers?name=x")
        await until(lambda: asyncio.to_thread(_has_request, file))  # a line is written when its answer is sent
        lines = file.read_text().splitlines()
        assert "resource_providers" not in made.logs()
        quiet = tmp_path / "quiet.log"
        await asyncio.to_thread(made.serve, "placement", **options | {"log-file": str(quiet), "log-level": "error"})
        await asyncio.to_thread(_get, f"{made.url}/resource_providers?name=x")
    assert quiet.read_text() == ""
    (line,) = [line for line in lines if "/resource_providers" in line]
    if format_ == "json":
        request = json.loads(line)
        assert (request["method"], request["path"], request["status"]) == ("GET", "/resource_providers?name=x", 200)
        assert [json.loads(other) for other in lines]
    else:
        stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+"
        assert re.match(rf'{stamp} INFO roost\.api-1 \[.*\] 127\.0\.0\.1 "GET /resource_providers\?name=x"', line)
        assert all(re.match(rf"{stamp} [A-Z]+ roost\.", other) for other in lines)


def _has_request(file: Path) -> bool:
    return "/resource_providers" in file.read_text()


def _get(url: str) -> None:
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()
