"""How the story of real guests is shown, beside what story_output.py has."""

from collections.abc import Sequence
from enum import StrEnum

from rich.padding import Padding

from roost.cli.asking.four_records import SegmentUse, ServerState
from roost.cli.asking.real_story import Evacuated, Moved, NicsSeen, Pinged, RealStory, Spoofed
from roost.cli.asking.story_output import INDENT, Narrator, segment_table
from roost.cli.plurals import is_or_are, many
from roost.cli.tables import new_table


class RealAct(StrEnum):
    """The titles of the story's own acts, beside those of `Act`."""

    BOOT = "Guests boot until every rack is full, and answer at their addresses"
    PING = "Guests ping each other, in a rack and across the router"
    SPOOF = "A guest that pretends to be another reaches nobody"
    MOVE = "A guest moves to another host while a client talks to it"
    LOSE = "A host dies, and its guests come back with their addresses"
    NICS = "The guests' NICs are as the APIs say"


class RealNarrator(Narrator):
    """Prints the story of real guests while it happens."""

    start_words = "Roost starts with {hosts} of this machine, {networks}, {segments}; the story takes a minute or two."

    def tidied(self, sentences: Sequence[str]) -> None:
        """Print what was removed that an earlier run had left behind."""
        for sentence in sentences:
            self._line(sentence)

    def guests_booted(self, servers: Sequence[ServerState], segments: Sequence[SegmentUse], seconds: float) -> None:
        """Print which guests answer at which addresses."""
        self._line(f"{many(len(servers), 'guest')} {is_or_are(len(servers))} there after {seconds:.1f} s.")
        table = new_table("guest", "host", "address")
        for server in servers:
            table.add_row(server.name, server.host or "", ", ".join(server.addresses))
        for shown in (table, segment_table(segments)):
            self._print(Padding(shown, (0, 0, 0, INDENT), expand=False))

    def pinged(self, pinged: Pinged) -> None:
        """Print which guests reach each other."""
        self._line(f"{pinged.answered} of {many(pinged.pairs, 'pair')} answer.")
        for pair in pinged.silent:
            self._line(f"{pair}: no answer.")

    def spoofed(self, spoofed: Spoofed) -> None:
        """Print what a guest reached that pretended to be another."""
        table = new_table(f"{spoofed.server} pings its gateway", "answers of 2", numbers=("answers of 2",))
        table.add_row("as itself", str(spoofed.as_itself))
        table.add_row("with an address that is not its own", str(spoofed.other_address))
        table.add_row("with a MAC address that is not its own", str(spoofed.other_mac))
        table.add_row("as itself again", str(spoofed.as_itself_again))
        self._print(Padding(table, (0, 0, 0, INDENT), expand=False))

    def moved(self, moved: Moved) -> None:
        """Print what a client saw while its guest moved."""
        self._line(f"{moved.server} moved from {moved.source} to {moved.target} in {moved.seconds:.1f} s.")
        if moved.lost is None:
            self._line(
                f"The client held one TCP connection: {many(moved.rounds, 'round trip')}, none lost; the worst took "
                f"{moved.worst_s:.2f} s, before the move {moved.before_s:.2f} s."
            )
        else:
            self._line(f"The client's connection was lost after {many(moved.rounds, 'round trip')}: {moved.lost}.")

    def evacuated(self, evacuated: Evacuated, servers: Sequence[ServerState]) -> None:
        """Print what became of the guests of a host that died."""
        silence = "is silent" if evacuated.silent else "still answers"
        self._line(f"{evacuated.host} is killed, with its agent and {', '.join(evacuated.servers)}: it {silence}.")
        for server in servers:
            verb = "answers again" if server.name in evacuated.back else "does not answer"
            self._line(f"{server.name} {verb} at {', '.join(server.addresses)}, on {server.host}.")
        self._line(
            f"From the host's death on that took {evacuated.seconds:.1f} s, ACTIVE after {evacuated.active_s:.1f} s."
        )

    def nics_seen(self, nics: NicsSeen) -> None:
        """Print what the guests' NICs showed."""
        self._line(f"{nics.answered} of {many(nics.addresses, 'address')} answer when the router asks for all of them.")
        for problem in nics.problems:
            self._line(problem)

    def ended(self, story: RealStory) -> None:
        """Print the promises that did not hold."""
        if story.broken:
            self.begin("What did not hold")
        for sentence in story.broken:
            self._line(sentence)
