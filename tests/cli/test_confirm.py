"""Commands that ask first."""

from collections.abc import Coroutine
from typing import Any

import pytest
from typer.testing import CliRunner

from roost.cli.manage import app

DESTROY = ("guests", "destroy", "8ac24bcc-7d72-41c2-8421-8a49032503b8")
DESTROYED = 7


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("", 1, "nobody answers here: --yes does it without the question"),
        ("n\n", 1, "[y/N]"),
        ("y\n", DESTROYED, "[y/N]"),
    ],
)
def test_a_question_is_answered_or_ends_the_command(
    answer: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def destroy(work: Coroutine[Any, Any, int]) -> int:
        work.close()
        return DESTROYED

    monkeypatch.setattr("roost.cli.managing.guest_commands.run_manage", destroy)
    done = CliRunner().invoke(app, [*DESTROY], input=answer)
    assert done.exit_code == status
    assert said in done.output
