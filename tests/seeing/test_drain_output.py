"""What `roost drain` and `roost recover` say, and what they refuse before they ask anybody."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from roost.cli.asking.cloud_client import CloudRefused
from roost.cli.asking.drain_commands import Work, read_deadline
from roost.cli.asking.drains import DrainState, end_lines, plan_lines, progress_line, staying_lines
from roost.cli.main import app
from roost.seeing.model import DrainPlan, ServerStaying

STAYS = ServerStaying(server_id="id-1", name="web", host="h1", reason="it is suspended")


def state(**changes: Any) -> DrainState:
    fields: dict[str, Any] = {
        "id": 7, "kind": "drain", "state": "running", "hosts": ("h1", "h2"), "segment": None, "servers": 5, "gone": 2,
        "ready": 0, "moving": 3, "staying": (),
    }  # fmt: skip
    return DrainState(**fields | changes)


@pytest.mark.parametrize(
    ("plan", "lines"),
    [
        (DrainPlan(servers=0), ["0 servers."]),
        (DrainPlan(servers=3, live=2, cold=1), ["3 servers: 2 live, 1 cold."]),
        (
            DrainPlan(servers=2, evacuated=1, staying=(STAYS,)),
            ["2 servers: 1 made again elsewhere, 1 cannot go.", "  h1 web (id-1): it is suspended"],
        ),
    ],
)
def test_a_plan_is_told_in_lines(plan: DrainPlan, lines: list[str]) -> None:
    assert plan_lines(plan) == lines


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "drain 7, running: 2 of 5 servers gone, 3 under way"),
        (
            {"kind": "recover", "ready": 1, "moving": 1, "staying": (STAYS,), "state": "cancelling"},
            "recovery 7, cancelling: 2 of 5 servers gone, 1 under way, 1 to go, 1 waiting or staying",
        ),
    ],
)
def test_progress_is_one_line(changes: dict[str, Any], line: str) -> None:
    assert progress_line(state(**changes)) == line
    assert not state(**changes).is_over


def test_the_end_says_who_stays_and_why() -> None:
    over = state(state="done", gone=5, moving=0)
    assert end_lines(over) == ["Drain 7, of 2 hosts, is done: 5 of 5 servers gone, all servers have left."]
    first, second = end_lines(state(kind="recover", state="cancelled", hosts=("h1",), gone=4, staying=(STAYS,)))
    assert first == "Recovery 7, of 1 host, was cancelled: 4 of 5 servers gone, 1 server is left."
    assert second == "  h1 web (id-1): it is suspended"
    assert over.is_over


def test_of_many_that_stay_the_first_are_told() -> None:
    lines = staying_lines([STAYS] * 23)
    assert len(lines) == 21
    assert lines[-1] == "  ... and 3 more: --json has them all"


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, None), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("0.5h", 1800)]
)
def test_a_deadline_is_a_number_with_a_unit(text: str | None, seconds: float | None) -> None:
    assert read_deadline(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "h", "0s", "-1h", "2w", "1h30m"])
def test_another_deadline_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 90s or 2h"):
        read_deadline(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drain"], "expected the names of hosts, or --segment"),
        (["recover", "h1"], "--hosts-are-dead: expected"),
        (["drain", "h1", "--deadline", "soon"], "--deadline soon: expected a number"),
        (["drain", "h1", "--parallel", "0"], "greater than or equal to 1"),
    ],
)
def test_wrong_usage_is_refused_before_anybody_is_asked(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, [*words, "--api", "http://127.0.0.1:9"])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize(("status", "goes_on"), [(404, False), (0, True), (503, True)])
async def test_only_a_drain_that_there_is_goes_on(
    status: int, goes_on: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refusing:
        async def call(self, *_: object) -> None:
            raise CloudRefused("Drain 77 could not be found", status=status)

    work = Work("drain", {}, watch=77, cancel=False, waits=True, as_json=False)
    with pytest.raises(CloudRefused):
        await work.run(Refusing())  # type: ignore[arg-type]
    assert ("`roost drain --watch 77` shows it" in capsys.readouterr().err) == goes_on
