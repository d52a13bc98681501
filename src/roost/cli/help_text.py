"""How both programs show their options, and which version they are."""

from importlib.metadata import version
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command that shows flags without a type: `--json`, not `--json <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, `--help` among them."""
        return _without_flag_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A program that shows flags as PlainCommand does."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the program's own options."""
        return _without_flag_types(super().get_params(ctx))


def _without_flag_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def show_version(asked: bool) -> None:
    """Print Roost's version and end, as the callback of `--version`."""
    if asked:
        print(f"roost {version('roost')}")  # noqa: T201
        raise typer.Exit
