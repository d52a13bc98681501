"""The commands that get hosts empty: `drain` where they are up, `recover` where they are dead."""

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from roost.cli.asking.commands import DEFAULT_API, Api, AsJson, CaFile, Token, ask
from roost.cli.printing import print_answer, print_note
from roost.cli.serving.option_checks import misused
from roost.cli.serving.tls_options import ClientCert, ClientKey

if TYPE_CHECKING:
    from roost.cli.asking.cloud_client import CloudClient
    from roost.cli.asking.drains import DrainState

Hosts = Annotated[list[str] | None, typer.Argument(metavar="HOST...", help="The hosts, by name.", show_default=False)]
Segment = Annotated[str | None, typer.Option(help="All hosts that reach this segment, a name or an id.")]
Parallel = Annotated[int, typer.Option(min=1, max=200, help="Moves under way at once.")]
Deadline = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin no move after so long, as 90s, 30m, 2h.", show_default="none")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would come to.")]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="Begin no more moves, and enable the hosts that the drain disabled.")
]
CancelRecovery = Annotated[
    bool, typer.Option("--cancel", help="Begin no more of it; hosts that were forced down stay so.")
]
Watch = Annotated[
    int | None,
    typer.Option(metavar="ID", help="Only show how far the drain with this number is; with --cancel, cancel it."),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return as soon as it is begun.")]
Dead = Annotated[
    bool, typer.Option("--hosts-are-dead", help="Vouch that nothing runs there: they are forced down first.")
]
Readdress = Annotated[
    bool, typer.Option("--readdress", help="Give servers other addresses where no host that reaches theirs has room.")
]
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def drain(
    hosts: Hosts = None,
    segment: Segment = None,
    parallel: Parallel = 4,
    deadline: Deadline = None,
    dry_run: DryRun = False,
    cancel: Cancel = False,
    watch: Watch = None,
    no_wait: NoWait = False,
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Get hosts empty: disable them, and move their servers away, live where they run.

    It goes on without this terminal; the same command shows it again. Exit status 1 where servers stay.

    Example: `roost drain r1-h1 r1-h2 --parallel 8`
    """
    _check_hosts(hosts, segment, watch)
    body = _body(hosts, segment, parallel, deadline, dry_run=dry_run)
    work = Work("drain", body, watch=watch, cancel=cancel, waits=not no_wait, as_json=as_json)
    _end(ask(work.run, api, token, ca_file, cert, key))


def recover(
    hosts: Hosts = None,
    segment: Segment = None,
    hosts_are_dead: Dead = False,
    readdress: Readdress = False,
    parallel: Parallel = 4,
    deadline: Deadline = None,
    dry_run: DryRun = False,
    cancel: CancelRecovery = False,
    no_wait: NoWait = False,
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Make the servers of dead hosts again elsewhere, as they were: those that ran run.

    It goes on without this terminal; the same command shows it again. Exit status 1 where servers stay.

    Example: `roost recover --segment rack1 --hosts-are-dead --readdress`
    """
    _check_hosts(hosts, segment, None)
    if not (hosts_are_dead or dry_run or cancel):
        misused("--hosts-are-dead: expected, as a server that still runs there would run twice")
    body = _body(hosts, segment, parallel, deadline, dry_run=dry_run) | {"readdress": readdress}
    work = Work("recover", body, watch=None, cancel=cancel, waits=not no_wait, as_json=as_json)
    _end(ask(work.run, api, token, ca_file, cert, key))


def read_deadline(text: str | None) -> float | None:
    """Return the seconds that a deadline says, None for none. Ends the command for what says none."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]+)?)([smhd])", text)
    if match is None or float(match[1]) == 0:
        misused(f"--deadline {text}: expected a number with s, m, h or d, such as 90s or 2h")
    return float(match[1]) * SECONDS[match[2]]


def _check_hosts(hosts: list[str] | None, segment: str | None, watch: int | None) -> None:
    if not hosts and segment is None and watch is None:
        misused("HOST...: expected the names of hosts, or --segment")


def _body(
    hosts: list[str] | None, segment: str | None, parallel: int, deadline: str | None, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "hosts": hosts or [],
        "segment": segment,
        "parallel": parallel,
        "deadline_s": read_deadline(deadline),
        "dry_run": dry_run,
    }


class Work:
    """What one command does with the API, and prints meanwhile; for programs it prints the last answer alone."""

    def __init__(
        self, kind: str, body: dict[str, Any], *, watch: int | None, cancel: bool, waits: bool, as_json: bool
    ) -> None:
        self.kind = kind
        self.body = body
        self.watched = watch
        self.cancels = cancel
        self.waits = waits
        self.as_json = as_json
        self.said = ""

    async def run(self, client: "CloudClient") -> "tuple[DrainState | None, int]":
        """Return the drain as it is at the end, None for a dry run, and how many servers stay."""
        from roost.cli.asking import drains

        if self.cancels:
            drain_id = (
                self.watched or (await drains.find(client, self.kind, self.body["hosts"], self.body["segment"])).id
            )
            await drains.cancel(client, drain_id)
        elif self.watched is not None:
            drain_id = self.watched
        else:
            begun = await drains.begin(client, self.kind, self.body)
            if not self.as_json:
                print_answer("\n".join(drains.plan_lines(begun.plan)))
            if begun.drain is None or not self.waits:
                if self.as_json:
                    print_answer(msgspec.json.encode(begun.document).decode())
                return begun.drain, len(begun.plan.staying)
            drain_id = begun.drain.id
        return await self._watch(client, drain_id)

    async def _watch(self, client: "CloudClient", drain_id: int) -> "tuple[DrainState, int]":
        from roost.cli.asking import drains
        from roost.cli.asking.cloud_client import CloudRefused

        def tell(state: "DrainState") -> None:
            line = drains.progress_line(state)
            if line != self.said and not self.as_json:
                print_note(line)
            self.said = line

        try:
            document = await drains.watch(client, drain_id, tell)
        except BaseException as error:
            if not (isinstance(error, CloudRefused) and error.status == HTTPStatus.NOT_FOUND):
                print_note(f"It goes on: `roost drain --watch {drain_id}` shows it.")
            raise
        drain = msgspec.convert(document["drain"], drains.DrainState)
        print_answer(msgspec.json.encode(document).decode() if self.as_json else "\n".join(drains.end_lines(drain)))
        return drain, len(drain.staying)


def _end(ended: "tuple[DrainState | None, int]") -> None:
    """End with the status 1 where servers stay."""
    if ended[1] and not (ended[0] is not None and ended[0].state == "cancelled"):
        raise typer.Exit(1)
