"""How `load` and `demo` are shown: progress, sentences and tables for people."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from roost.cli.asking.cloudfile import Cloud
from roost.cli.asking.four_records import FourRecords, SegmentUse, ServerState
from roost.cli.plurals import is_or_are, many, plural
from roost.cli.tables import new_table

BAR_CELLS = 26
INDENT = 3


class Bars:
    """Progress bars on standard error, one per kind of work; none where it is no terminal.

    Bars are redrawn by moving the cursor up, so whoever prints to the same terminal clears them first.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._bars = self._new_bars()
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Bars":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Erase all bars; the next progress draws new ones."""
        self._bars.stop()
        self._bars, self._tasks = self._new_bars(), {}  # one that is started again erases as many lines as it had

    def progress(self, kind: str, done: int, total: int) -> None:
        """Move the bar of one kind of work."""
        if kind not in self._tasks:
            self._bars.start()
            self._tasks[kind] = self._bars.add_task(kind, total=total)
        self._bars.update(self._tasks[kind], completed=done, total=total)

    def _new_bars(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(BAR_CELLS), MofNCompleteColumn())
        return Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)


class Act(StrEnum):
    """The titles of the story's acts."""

    FILL = "Servers are booted until the addresses run out"
    REFUSE = "The next boot is refused, and says why"
    REUSE = "A freed address is used again"
    FOLLOW = "A port that has an address decides the rack"


class Narrator:
    """Prints the story while it happens, each title before what it announces; on a quiet console, nothing.

    again: the command by which people get the story's cloud to try things on.
    """

    start_words = "Roost starts with {hosts} that pretend, {networks}, {segments}: some 5 s."

    def __init__(self, bars: Bars, console: Console, *, again: str) -> None:
        self.progress = bars.progress
        self._bars = bars
        self._console = console
        self._again = again
        self._act = 0

    def starting(self, cloud: Cloud) -> None:
        """Print what is started, before it is."""
        names = ", ".join(network.name for network in cloud.networks)
        words = self.start_words.format(
            hosts=many(sum(len(hosts.names()) for hosts in cloud.hosts), "host"),
            networks=f"{plural(len(cloud.networks), 'network')} {names}",
            segments=many(sum(len(network.segments) or 1 for network in cloud.networks), "segment"),
        )
        self._print(Text(words))

    def begin(self, act: str) -> None:
        """Print the title of an act."""
        self._act += 1
        self._print(Text(f"{self._act}. {act}", style="bold"))

    def booted(self, servers: Sequence[ServerState], segments: Sequence[SegmentUse], seconds: float) -> None:
        """Print how many servers took which addresses."""
        active = sum(server.status == "ACTIVE" for server in servers)
        self._line(f"{active} of {many(len(servers), 'server')} {is_or_are(active)} ACTIVE after {seconds:.1f} s.")
        self._print(Padding(segment_table(segments), (0, 0, 0, INDENT), expand=False))

    def refused(self, server: ServerState) -> None:
        """Print why a boot was refused: the fault has every requirement and the hosts that it left."""
        self._line(f"{server.name}: {server.fault}")

    def reused(self, deleted: ServerState, server: ServerState, segment: str) -> None:
        """Print that a server got the address of a deleted one."""
        self._line(f"{deleted.name} ({', '.join(deleted.addresses)}) on {deleted.host} is deleted.")
        self._line(f"{server.name} boots into {', '.join(server.addresses)} on {server.host}, in {segment}.")

    def followed(self, server: ServerState, address: str, segment: SegmentUse) -> None:
        """Print that a server went where the address of its port is."""
        self._line(f"The port has {address}, which is in {segment.name}.")
        self._line(f"{server.name} boots with it and lands on {server.host}, which reaches {segment.name}.")

    def skipped(self, reason: str) -> None:
        """Print why a part of the story is left out."""
        self._line(f"Skipped: {reason}.")

    def checked(self, records: FourRecords) -> None:
        """Print whether the four records agree."""
        self.begin(f"The four records {'agree' if records.agree else 'do not agree'}")
        self._line(
            f"{many(records.ledger, 'claim')} in the ledger, {many(records.addresses, 'address')} assigned, "
            f"{many(records.ports, 'port')}, {many(records.servers, 'server')} ACTIVE."
        )
        for difference in records.differences:
            self._line(difference)

    def told(self, seconds: float, *, data_dir: Path | None) -> None:
        """Print the end, before all that runs is ended. data_dir: where the data stays, None if it is deleted."""
        data = f"its data stays in {data_dir}" if data_dir else "its data is deleted"
        self._print(Text(f"Told in {seconds:.1f} s. Now all that ran is ended, and {data}: some 2 s."))
        self._print(Text(f"Next: {self._again} serves it for you to try; docs/tutorial/first-cloud.md leads on."))

    def _line(self, text: str) -> None:
        self._print(Padding(Text(text), (0, 0, 0, INDENT), expand=False))

    def _print(self, paragraph: RenderableType) -> None:
        self._bars.clear()
        self._console.print(paragraph)


def load_text(created: Mapping[str, int], existing: Mapping[str, int]) -> str:
    """Return what `load` did, in one sentence. created, existing: kinds in the plural -> how many."""
    created_text, existing_text = _listed(created), _listed(existing)
    if created_text:
        return f"Created {created_text}." + (f" There already: {existing_text}." if existing_text else "")
    if not existing_text:
        return "Nothing to create: the file is empty."
    return f"Nothing to create: {existing_text} {is_or_are(sum(existing.values()))} there already."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(many(count, kind.removesuffix("s")) for kind, count in counts.items() if count)


def segment_table(segments: Sequence[SegmentUse]) -> Table:
    """Return a row for each segment: hosts, servers, addresses used and free, and a bar of the same."""
    numbers = ("hosts", "servers", "used", "free")
    table = new_table("segment", *numbers, "addresses", numbers=numbers)
    for segment in segments:
        used, free = segment.addresses_used, segment.addresses_free
        cells = (len(segment.host_names), segment.servers, used, free)
        table.add_row(segment.name, *map(str, cells), _bar(used, segment.addresses_total))
    return table


def _bar(used: int, total: int) -> Text:
    full = min(BAR_CELLS, -(-used * BAR_CELLS // total)) if total else 0
    colour = "red" if used >= total else "green"
    return Text("█" * full, style=colour) + Text("░" * (BAR_CELLS - full), style="dim")
