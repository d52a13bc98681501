"""The words of what the records know of an agent: its starts, its secret's hash, and which hosts it holds."""

from datetime import datetime

from msgspec import Struct

from roost.compute.model.recovery import MarkRow
from roost.seams.agent import AgentIdentity


class AgentRow(Struct, frozen=True, kw_only=True):
    """An agent as its row has it.

    boot_id, boot_since: of the newest start, and when it was first heard; None for an agent that says none.
    former_boots: the starts before, the latest first. former_at: when one of those last spoke although the newest had
    come; None: none did, or that is over. former_boot_id, former_label: of that one. boot_at: when the newest last
    spoke since. secret_sha256: None until it brings one. seen_at: when it last held all its hosts.
    """

    id: str
    label: str = ""
    service_version: int = 0
    boot_id: str | None = None
    boot_since: datetime
    boot_at: datetime | None = None
    former_boots: tuple[str, ...] = ()
    former_boot_id: str | None = None
    former_label: str = ""
    former_at: datetime | None = None
    secret_sha256: bytes | None = None
    seen_at: datetime | None = None


class AgentPoll(Struct, frozen=True, kw_only=True):
    """What an agent says of itself in a poll. hosts: by name. hosts_digest: of what its leases on them are to be."""

    agent: AgentIdentity
    hosts: tuple[str, ...]
    secret_sha256: bytes | None
    hosts_digest: bytes


class AgentHeard(Struct, frozen=True, kw_only=True):
    """How a poll was heard. settled: by the newest start, with the secret. renewed: and it holds all that it asks for.

    now_s: the database's time, in seconds since 1970. mark: as its row has it.
    """

    settled: bool
    renewed: bool
    now_s: float
    mark: MarkRow


class AgentClash(Struct, frozen=True, kw_only=True):
    """Two starts of one agent that spoke at the same time, by what people know of them. since: of the newer start."""

    label: str
    since: datetime
    former_label: str
    former_at: datetime


class DeclaredHosts(Struct, frozen=True):
    """The hosts that cloud files declared, by name, after so many changes of which those are."""

    changes: int
    names: tuple[str, ...]
