"""How `servers` and `status` are shown: tables for people, JSON for programs."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from roost.cli.asking.four_records import ServerState
from roost.cli.asking.status import HostStatus, Status
from roost.cli.plurals import is_or_are, many
from roost.cli.tables import new_table, print_rows, print_table
from roost.platform.grouping import grouped

HOSTS_SHOWN = 10


def printable(text: str) -> str:
    """Return a name that others chose without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def print_servers(console: Console, servers: Sequence[ServerState]) -> None:
    """Print a row for each server, and below them why each in ERROR is."""
    if not servers:
        console.print("There is no server.")
        return
    rows = [(s.id, s.name, s.status, s.host or "", ", ".join(s.addresses)) for s in servers]
    print_rows(console, ("id", "name", "status", "host", "addresses"), (tuple(map(printable, row)) for row in rows))
    for fault, names in _names_by_fault(servers).items():
        console.print(Text(f"\n{printable(', '.join(names))}: {printable(fault)}"), soft_wrap=not console.is_terminal)


def _names_by_fault(servers: Iterable[ServerState]) -> dict[str, list[str]]:
    """Return the faults, each in one line, with the servers that have it."""
    return grouped((" ".join(server.fault.split()), server.name) for server in servers if server.fault)


def servers_json(servers: Sequence[ServerState]) -> bytes:
    """Return the servers for a program; docs/reference/command-line.md."""
    shown = ("id", "name", "status", "host", "addresses", "fault")
    return msgspec.json.encode({"servers": [{name: getattr(server, name) for name in shown} for server in servers]})


def print_status(console: Console, status: Status) -> None:
    """Print hosts in a line or two, a row for each segment, and the oldest builds."""
    console.print(Text(printable(_hosts_text(status.hosts))))
    if status.segments:
        console.print()
        table = new_table("network", "segment", "addresses", "used", "free", numbers=("addresses", "used", "free"))
        for segment in status.segments:
            counts = [f"{count:,}" for count in (segment.total, segment.used, segment.free)]
            names = (printable(segment.network), printable(segment.segment))
            table.add_row(*names, *counts, style="" if segment.free else "red")
        print_table(console, table)
    console.print()
    if not status.builds_total:
        console.print("No server is being built or deleted.")
        return
    console.print(f"{many(status.builds_total, 'server')} {is_or_are(status.builds_total)} being built or deleted:")
    rows = [(printable(build.name), build.stage, build.since, printable(build.waits_for)) for build in status.builds]
    print_rows(console, ("server", "stage", "since", "waits for"), rows)
    if status.builds_total > len(status.builds):
        console.print(f"... and {status.builds_total - len(status.builds):,} more.")


def _hosts_text(hosts: Sequence[HostStatus]) -> str:
    """Return how many hosts are up, down and disabled, with the names of those that are not as they should be."""
    down = [host.name for host in hosts if host.state == "down"]
    disabled = [host.name for host in hosts if host.status == "disabled"]
    text = f"{many(len(hosts), 'host')}: {len(hosts) - len(down)} up"
    for word, names in (("down", down), ("disabled", disabled)):
        if names:
            more = f" and {len(names) - HOSTS_SHOWN:,} more" if len(names) > HOSTS_SHOWN else ""
            text += f", {len(names)} {word} ({', '.join(names[:HOSTS_SHOWN])}{more})"
    return f"{text}."


def status_json(status: Status) -> bytes:
    """Return the status for a program; docs/reference/command-line.md."""
    return msgspec.json.encode(status)
