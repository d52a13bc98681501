"""The `roost` command: reads options, calls the part that does it, and turns errors into one sentence and a status.

Exit status 0: done; 1: it failed; 2: it was asked wrongly. Errors and logs go to standard error.
"""

import asyncio
import re
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from roost.cli.supervisor import ServeOptions, serve
from roost.cli.wiring import SERVICES
from roost.platform.errors import RoostError
from roost.platform.telemetry import configure_logging

app = typer.Typer(
    name="roost",
    help="Roost places virtual machines where their network has room.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _roost() -> None:
    """Keep the commands commands, even when there is only one."""


def main() -> None:
    """Run the command line."""
    app()


@app.command("serve")
def _serve(
    services: Annotated[
        list[str] | None, typer.Argument(help="all, or any of: placement, network, compute, conductor.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where the private PostgreSQL lives; several Roosts may share one.", show_default="./roost"),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="Use this PostgreSQL instead: postgresql://user:password@host/name.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Address and port; port 0 takes a free one.", show_default="127.0.0.1:8778")
    ] = None,
    agent_listen: Annotated[
        str | None, typer.Option(help="Where agents ask.", show_default="the same address, a free port")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="API processes.")] = 1,
    conductors: Annotated[int, typer.Option(min=1, max=64, help="Conductor processes.")] = 1,
    auth: Annotated[str, typer.Option(help="none: every caller is an admin of one project.")] = "none",
    pg_bin: Annotated[Path | None, typer.Option(help="The bin directory of another PostgreSQL, 15 or later.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve the APIs, with a database of its own unless one is given.

    Prints one line with its address once it answers; SIGTERM or Ctrl-C stops it.

    Example: `roost serve all --data-dir /var/lib/roost --listen 127.0.0.1:8778 --workers 2`
    """
    chosen = _services(services or ["all"])
    if database and (data_dir or pg_bin):
        _misused("--database brings its own PostgreSQL: leave out --data-dir and --pg-bin")
    if auth != "none":
        _misused(f"--auth {auth}: expected none")
    host, port = _address("--listen", listen or "127.0.0.1:8778")
    agent_host, agent_port = _address("--agent-listen", agent_listen or f"{host}:0")
    options = ServeOptions(
        services=chosen,
        data_dir=None if database else (data_dir or Path("roost")),
        database=database,
        host=host,
        port=port,
        agent_host=agent_host,
        agent_port=agent_port,
        workers=workers,
        conductors=conductors,
        pg_bin=pg_bin,
        listens=chosen != ("conductor",) or listen is not None,
    )

    def ready(address: str) -> None:
        if as_json:
            line = msgspec.json.encode({"url": address or None, "services": chosen}).decode()
        else:
            line = f"Roost serves {', '.join(chosen)}" + (f" at {address}" if address else "")
        print(line, flush=True)  # noqa: T201  the one line that programs wait for

    configure_logging("supervisor")
    _run(serve(options, ready=ready))


def _services(words: list[str]) -> tuple[str, ...]:
    unknown = [word for word in words if word not in (*SERVICES, "all")]
    if unknown:
        _misused(f"no service {unknown[0]!r}: expected all, or any of {', '.join(SERVICES)}")
    return SERVICES if "all" in words else tuple(service for service in SERVICES if service in words)


def _address(option: str, text: str) -> tuple[str, int]:
    match = re.fullmatch(r"\[?([^\[\]]+?)\]?:([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65535:
        _misused(f"{option} {text}: expected an address and a port such as 127.0.0.1:8778")
    return match[1], int(match[2])


def _misused(text: str) -> NoReturn:
    raise typer.BadParameter(text)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end; an error that Roost foresaw is its sentence and exit status 1."""
    try:
        asyncio.run(work)
    except RoostError as error:
        _fail(error)
    except ExceptionGroup as errors:
        foreseen = [error for error in errors.exceptions if isinstance(error, RoostError)]
        if not foreseen:
            raise
        _fail(foreseen[0])
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _fail(error: RoostError) -> NoReturn:
    print(f"roost: {error}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(1) from None
