"""The commands that ask a running Roost, and the options by which all commands reach one."""

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from roost.cli import endings
from roost.cli.printing import print_note
from roost.cli.serving.tls_options import ClientCert, ClientKey, check_pair, path_text
from roost.platform.errors import BadRequest

if TYPE_CHECKING:
    from rich.console import Console

    from roost.cli.asking.cloud_client import CloudClient

DEFAULT_LISTEN = "127.0.0.1:8778"
DEFAULT_API = f"http://{DEFAULT_LISTEN}"

Api = Annotated[str, typer.Option(metavar="URL", envvar="ROOST_API", help="Where Roost's main listener is.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="OS_TOKEN", help="For a Roost that wants one; without it, OS_AUTH_URL and the like are used."),
]
CaFile = Annotated[
    str | None,
    typer.Option(envvar="OS_CACERT", help="A file of certificates to trust, where Roost or Keystone speaks https."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]

EVENTS_SHOWN = 100
KINDS = ("refusal", "failure", "retry", "move", "drain", "fence", "repair", "loss", "host")
"""As roost.platform.events has them, which the help does not import."""

Answer = TypeVar("Answer")


def servers(
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """List every server: its status, host and addresses, and why it is in ERROR.

    Example: `roost servers --api http://127.0.0.1:8778`
    """
    from roost.cli.asking.four_records import read_servers
    from roost.cli.asking.status_output import print_servers, servers_json

    servers_read = ask(read_servers, api, token, ca_file, cert, key)
    _show(servers_read, servers_json if as_json else None, print_servers)


def status(
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Say which hosts are up, how many addresses are free, and what servers that are being built wait for.

    Example: `roost status --api http://127.0.0.1:8778`
    """
    from roost.cli.asking.status import read_status
    from roost.cli.asking.status_output import print_status, status_json

    status_read = ask(read_status, api, token, ca_file, cert, key)
    _show(status_read, status_json if as_json else None, print_status)


def events(
    api: Api = DEFAULT_API,
    server: Annotated[str | None, typer.Option(metavar="ID", help="Of this server, by its id; it may be gone.")] = None,
    host: Annotated[str | None, typer.Option(help="On this host, from it or to it.")] = None,
    segment: Annotated[str | None, typer.Option(metavar="NAME|ID", help="Of this segment.")] = None,
    request: Annotated[str | None, typer.Option(metavar="ID", help="Of this request, by either of its ids.")] = None,
    kind: Annotated[str | None, typer.Option(help=f"One of: {', '.join(sorted(KINDS))}.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="30s, 10m, 2h, 7d, or a time; UTC.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many: the last ones.")] = EVENTS_SHOWN,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that come.")] = False,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Say what was refused, retried, moved, drained, fenced, repaired and lost, and why; the latest last.

    Example: `roost events --since 2h --kind refusal`
    """
    from roost.cli.asking.event_output import event_json, events_json, no_event_text, print_events
    from roost.cli.asking.events import EventLine, EventQuery, follow_events, read_events, read_since
    from roost.cli.tables import table_console

    try:
        moment = None if since is None else read_since(since, datetime.now(UTC))
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from error
    query = EventQuery(server=server, host=host, segment=segment, request=request, kind=kind, since=moment, limit=limit)
    if not follow:
        events_read = ask(partial(read_events, query=query), api, token, ca_file, cert, key)
        _show(events_read, events_json if as_json else None, print_events)
        if not events_read and not as_json:
            print_note(no_event_text(query))
        return

    def show(events_new: Sequence[EventLine]) -> None:
        if not as_json:
            print_events(table_console(), events_new)
        for event in events_new if as_json else ():
            typer.echo(event_json(event))

    ask(partial(follow_events, query=query, show=show), api, token, ca_file, cert, key)


def _show(
    answer: Answer, to_json: "Callable[[Answer], bytes] | None", print_tables: "Callable[[Console, Answer], None]"
) -> None:
    """Print the answer as JSON, or for people where to_json is None."""
    from roost.cli.tables import table_console

    if to_json is not None:
        typer.echo(to_json(answer))
    else:
        print_tables(table_console(), answer)


def check_api(url: str) -> str:
    """Return it. Raises BadParameter for what is no URL."""
    if not re.match(r"https?://.", url):
        raise typer.BadParameter(f"--api {url}: expected a URL such as {DEFAULT_API}")
    return url


def ask(
    read: "Callable[[CloudClient], Awaitable[Answer]]",
    api: str,
    token: str | None,
    ca_file: str | None,
    cert: Path | None,
    key: Path | None,
    *,
    failed: int = 1,
) -> Answer:
    """Return what a running Roost answers; else end the command with a sentence and the status `failed`."""
    from roost.cli.asking.cloud_client import CloudClient
    from roost.cli.keystone import access_of

    check_api(api)
    check_pair(cert, key)

    async def work() -> Answer:
        access = access_of(token, ca_file, os.environ, cert=path_text(cert), key=path_text(key))
        async with CloudClient.connect(api, access) as client:
            return await read(client)

    return endings.run(work(), failed=failed)
