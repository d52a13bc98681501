"""How `explain` and `capacity` are shown to people; programs get the API's answers as they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from roost.cli.asking.status_output import printable
from roost.cli.plurals import many
from roost.cli.tables import new_table, print_rows, print_table

NEAREST_SHOWN = 5
HOSTS_SHOWN = 10
UNBOUNDED = 2**40
"""From here on a number means that nothing bounds it."""

Answer = Mapping[str, Any]


def print_explanation(console: Console, answer: Answer) -> None:
    """Print the sentence, then the funnel, the nearest hosts, and what would help; of a past request the sentences."""
    if "refusals" in answer:
        for refusal in answer["refusals"]:
            server = f"{refusal['name']} ({refusal['server_id']})" if refusal["server_id"] else "a request for servers"
            _print_text(console, f"{server}: {refusal['message']}")
            _print_funnel(console, refusal["funnel"])
        return
    _print_text(console, answer["message"])
    _print_funnel(console, answer["funnel"])
    if answer["hosts"]:
        _print_where(console, answer)
    if answer["fits"]:
        return
    if answer["nearest"]:
        console.print("\nNearest:")
        for near in answer["nearest"][:NEAREST_SHOWN]:
            _print_text(console, f"  {_near_text(near)}")
    if answer["remedies"]:
        console.print("\nWould help, each by itself (tried):")
        for remedy in answer["remedies"]:
            _print_text(console, f"  {remedy['words']}")
    elif answer["nearest"]:
        console.print("\nNo single change that was tried helps, nor two together.")


def _print_text(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=not console.is_terminal)


def _print_funnel(console: Console, funnel: Sequence[Answer]) -> None:
    if funnel:
        console.print()
        rows = ((f"{line['hosts']:,}", printable(line["requirement"])) for line in funnel)
        print_rows(console, ("hosts", "left by"), rows, numbers=("hosts",))


def _print_where(console: Console, answer: Answer) -> None:
    console.print()
    if answer["segments"]:
        rows = ((s["network"], s["segment"], f"{s['addresses']:,}") for s in answer["segments"])
        print_rows(console, ("network", "segment", "addresses"), rows, numbers=("addresses",))
    hosts = answer["hosts"]
    shown = ", ".join(f"{host['host']} {host['servers']}" for host in hosts[:HOSTS_SHOWN])
    more = f" and {len(hosts) - HOSTS_SHOWN:,} more" if len(hosts) > HOSTS_SHOWN else ""
    _print_text(console, f"Servers by host: {shown}{more}.")


def _near_text(near: Answer) -> str:
    """Return what is lacking, by place: `r1-h3: 1 VCPU`, `rack2: 3 addresses (hosts r2-h1, r2-h2)`."""
    text = "; ".join(f"{lack['place']}: {lack['words']}" for lack in near["lacks"])
    hosts = [host for host in near["hosts"] if any(lack["place"] != host for lack in near["lacks"])]
    if not hosts:
        return text
    more = near["hosts_total"] - len(near["hosts"][:HOSTS_SHOWN])
    names = ", ".join(near["hosts"][:HOSTS_SHOWN]) + (f" and {more:,} more" if more else "")
    return f"{text} (for {names})"


def _print_drained(console: Console, answer: Answer) -> None:
    """Print what became of the servers of hosts that would be drained."""
    if drained := answer.get("drained"):
        staying = drained["servers_staying"]
        text = f"{many(drained['servers_moved'], 'server')} of the drained hosts would go elsewhere"
        _print_text(
            console, f"{text}, and {many(len(staying), 'server')} would find no place." if staying else f"{text}."
        )
        if staying:
            names = ", ".join(server["name"] for server in staying[:HOSTS_SHOWN])
            _print_text(console, f"Without a place: {names}{', ...' if len(staying) > HOSTS_SHOWN else ''}.")


def print_capacity(console: Console, answer: Answer) -> None:
    """Print how many fit, what binds, and where."""
    _print_drained(console, answer)
    servers = answer["servers"]
    if servers["exact"]:
        _print_text(console, f"{_number(servers['most'])} more fit, in whatever order they come.")
    else:
        _print_text(
            console,
            f"{_number(servers['least'])} more fit as servers are placed today, at most {_number(servers['most'])}.",
        )
        for choice in servers["choices"]:
            _print_text(console, f"Their order matters: {choice}.")
    for binding in servers["bindings"]:
        more = "any number" if binding["more"] is None else f"{binding['more']:,}"
        verb = "bind" if binding["limit"].endswith("s") else "binds"
        _print_text(console, f"{binding['limit']} {verb}: {more} more would fit without that limit.")
    if servers["segments"]:
        columns = ("hosts", "room on hosts", "addresses for", "fit", "stranded on hosts", "stranded addresses")
        names = ("hosts", "on_hosts", "by_addresses", "fits", "stranded_on_hosts", "stranded_addresses")
        console.print()
        rows = ((s["network"], s["segment"], *(_number(s[name]) for name in names)) for s in servers["segments"])
        print_rows(console, ("network", "segment", *columns), rows, numbers=columns)
    _print_groups(console, "zone", servers["zones"])
    _print_groups(console, "aggregate", servers["aggregates"])


def _print_groups(console: Console, heading: str, groups: Sequence[Answer]) -> None:
    if groups:
        console.print()
        rows = (
            (printable(g["name"]), f"{g['hosts']:,}", ("" if g["exact"] else "at most ") + _number(g["most"]))
            for g in groups
        )
        print_rows(console, (heading, "hosts", "fit"), rows, numbers=("hosts", "fit"))


def _number(count: int) -> str:
    return f"{count:,}" if count < UNBOUNDED else "any"


def print_cloud(console: Console, answer: Answer) -> None:
    """Print the table of the cloud."""
    _print_drained(console, answer)
    cloud = answer["cloud"]
    total = cloud["total"]
    _print_text(console, f"{many(total['hosts'], 'host')}, of which {total['open']:,} take servers.")
    lines = [*_rooms("cloud", [{"name": "", "room": total}]), *_rooms("zone", cloud["zones"])]
    lines += _rooms("aggregate", cloud["aggregates"])
    columns = ("hosts", "open", "VCPUs free", "of", "memory MB free", "of", "disk GB free", "of")
    console.print()
    print_rows(console, ("", "", *columns), lines, numbers=columns)
    if not cloud["segments"]:
        return
    console.print()
    numbers = ("addresses", "free", "hosts", "open", "VCPUs free", "VCPUs stranded", "addresses stranded")
    table = new_table("network", "segment", *numbers, numbers=numbers)
    for line in cloud["segments"]:
        room = line["room"]
        counts = [line["addresses"], line["addresses_free"], room["hosts"], room["open"], room["vcpus_free"]]
        counts += [line["vcpus_stranded"], line["addresses_stranded"]]
        style = "red" if line["vcpus_stranded"] else ""
        names = (printable(line["network"]), printable(line["segment"]))
        table.add_row(*names, *(f"{count:,}" for count in counts), style=style)
    print_table(console, table)


def _rooms(heading: str, lines: Iterable[Answer]) -> Iterable[tuple[str, ...]]:
    for line in lines:
        room = line["room"]
        counts = [room["hosts"], room["open"]]
        for name in ("vcpus", "memory_mb", "disk_gb"):
            counts += [room[f"{name}_free"], room[name]]
        yield heading, printable(line["name"]), *(f"{count:,}" for count in counts)
