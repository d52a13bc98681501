"""What was seen while the story of real guests was told, for people and for programs."""

from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from roost.cli.asking.demo import SERVER_FIELDS
from roost.cli.asking.four_records import FourRecords, SegmentUse, ServerState


class Pinged(Struct, frozen=True, kw_only=True):
    """How many of the pairs of guests reach each other. silent: "FROM to TO" of the others."""

    pairs: int
    answered: int
    silent: tuple[str, ...]


class Spoofed(Struct, frozen=True, kw_only=True):
    """How many answers a guest had: as itself, with an address or a MAC that is not its own, as itself again."""

    server: str
    as_itself: int
    other_address: int
    other_mac: int
    as_itself_again: int

    @property
    def held(self) -> bool:
        """Return whether it reached somebody as itself alone."""
        return self.as_itself > 0 and self.as_itself_again > 0 and self.other_address == self.other_mac == 0


class Moved(Struct, frozen=True, kw_only=True):
    """A live migration. rounds: of a client, one after the other. lost: what became of its connection, None if nothing.

    before_s, worst_s: how long it waited at most, before and during the migration. seconds: of the whole migration.
    """

    server: str
    source: str
    target: str | None
    rounds: int
    lost: str | None
    before_s: float
    worst_s: float
    seconds: float


class Evacuated(Struct, frozen=True, kw_only=True):
    """A host that died. silent: its guests did not answer then. back: those that answer again where they did before.

    active_s: from its death until the API calls them ACTIVE. seconds: until they answer.
    """

    host: str
    servers: tuple[str, ...]
    silent: bool
    back: tuple[str, ...]
    targets: tuple[str, ...]
    active_s: float
    seconds: float


class NicsSeen(Struct, frozen=True, kw_only=True):
    """What the guests' NICs showed at the end. asked: addresses. answered: those at which somebody answered.

    problems: a sentence for each thing that is not as the APIs say.
    """

    asked: int
    answered: int
    problems: tuple[str, ...]


@dataclass
class RealStory:
    """What was seen. broken: a sentence for each promise that did not hold."""

    hosts: list[str]
    boot_seconds: float = 0.0
    pinged: Pinged | None = None
    refused: ServerState | None = None
    spoofed: Spoofed | None = None
    moved: Moved | None = None
    evacuated: Evacuated | None = None
    segments: list[SegmentUse] = field(default_factory=list)
    servers: list[ServerState] = field(default_factory=list)
    records: FourRecords | None = None
    nics: NicsSeen | None = None
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Return whether every promise held."""
        return not self.broken

    def document(self) -> dict[str, Any]:
        """Return it for a program; docs/reference/command-line.md."""
        refused = self.refused
        return {
            "hosts": self.hosts,
            "boot_seconds": self.boot_seconds,
            "servers": [{name: getattr(server, name) for name in SERVER_FIELDS} for server in self.servers],
            "pinged": self.pinged,
            "refused": refused and {"name": refused.name, "reason": refused.fault or "", "funnel": refused.funnel},
            "spoofed": self.spoofed,
            "moved": self.moved,
            "evacuated": self.evacuated,
            "books": self.records,
            "nics": self.nics,
            "broken": self.broken,
            "seconds": self.seconds,
        }
