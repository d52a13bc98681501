"""How both programs show their options, and which version they are."""

from typing import Annotated, Any

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


def _show_version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version

        print(f"roost {version('roost')}")  # noqa: T201
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Say which Roost this is.", callback=_show_version, is_eager=True)
]


def new_program(name: str, description: str) -> typer.Typer:
    """Return a program that has `--version` and no commands yet; its commands stay commands, even a single one."""
    program = typer.Typer(
        cls=PlainGroup,
        name=name,
        help=description,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @program.callback()
    def options(_version: Version = False) -> None:
        pass

    return program
