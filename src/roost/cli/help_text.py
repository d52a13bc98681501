"""How both programs show their options, and which version they are."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

OTHER_PROGRAM = {"roost": ("roost-manage", "roost.cli.manage"), "roost-manage": ("roost", "roost.cli.main")}
"""By the name of a program the other one, and the module whose `app` it is."""

TYPES = {
    "<str>": "TEXT", "<list[str]>": "TEXT", "<path>": "PATH", "<list[Path]>": "PATH",
    "<int>": "N", "<int range>": "N", "<float>": "N", "<float range>": "N",
}  # fmt: skip
"""What is shown for the type of an option that has no word of its own."""


class PlainCommand(TyperCommand):
    """A command that shows flags without a type and others with a plain one: `--json`, `--config PATH`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, `--help` among them."""
        return _with_plain_types(super().get_params(ctx), ctx)


class PlainGroup(TyperGroup):
    """A program that shows flags as PlainCommand does, and knows which commands the other program has."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was named. Ends with a sentence where only the other program has it."""
        name, module = OTHER_PROGRAM.get(str(self.name), ("", ""))
        if module and args[0] not in self.commands:
            other = typer.main.get_command(import_module(module).app)
            if isinstance(other, TyperGroup) and args[0] in other.commands:
                ctx.fail(f"No such command '{args[0]}' here: it is `{name} {args[0]}`.")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the program's own options."""
        return _with_plain_types(super().get_params(ctx), ctx)


def _with_plain_types(parameters: list[Any], ctx: Any) -> list[Any]:
    """Name the types of options in the words of people who type them; flags and arguments have none."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type = _show_no_type
        elif parameter.metavar is None:
            parameter.metavar = TYPES.get(parameter.display_type(ctx))
    return parameters


def _show_no_type(_: Any) -> None:
    """Return the type of an argument as it is shown: its name says it."""


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
