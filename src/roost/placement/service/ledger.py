"""What the ledger's operations work with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import os_resource_classes
import os_traits

from roost.placement.model import NEUTRON_CHANNEL, NameKind
from roost.placement.service.refresh import IndexRefresher
from roost.placement.settings import PlacementSettings
from roost.placement.store import names as names_store
from roost.platform.batches import Batches
from roost.platform.database import Database
from roost.platform.env import Env
from roost.platform.event_tables import EventTable
from roost.platform.noted_events import NotedEvents
from roost.platform.wakeup import Wakeups
from roost.seams.neutron import NeutronClient
from roost.seams.placement import IPV4_ADDRESS, Claimed, ClaimGroup, Refused

CLAIM_GRACE_S = 3600.0

STANDARD_ORDERS: Mapping[NameKind, Sequence[str]] = {
    NameKind.RESOURCE_CLASS: os_resource_classes.STANDARDS,
    NameKind.TRAIT: sorted(os_traits.get_traits()),
}
STANDARD_NAMES = {kind: frozenset(names) for kind, names in STANDARD_ORDERS.items()}


@dataclass
class Ledger:
    """The ledger's database, index and settings.

    standard_ids: of standard names, which never change; custom ones come and go, and are looked up. claims: where
    single claims meet, made by the first of them. neutron: the one whose segments' addresses it counts, if any.
    claim_grace_s: how old a claim of addresses is before an audit misses its ports in Neutron. neutron_zones: of
    segments, see rules.neutron.new_state. wakeups: to its poller. searches_seen: whether
    searches named segments, of those since this was last kept. segments_given_up: those that a search of this process
    has waited for in vain until a round had counted them. refusals: noted by events.py.
    """

    database: Database
    env: Env = field(default_factory=Env)
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    standard_ids: dict[NameKind, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in NameKind})
    index: IndexRefresher = field(init=False)
    claims: Batches[ClaimGroup, tuple[Claimed | Refused, Mapping[str, float]]] | None = None
    neutron: NeutronClient | None = None
    claim_grace_s: float = CLAIM_GRACE_S
    neutron_zones: Mapping[str, str] = field(default_factory=dict)
    wakeups: Wakeups | None = None
    searches_seen: set[bool] = field(default_factory=set)
    segments_given_up: set[str] = field(default_factory=set)
    refusals: NotedEvents = field(init=False)

    def __post_init__(self) -> None:
        """Begin with an empty index: the first search fills it."""
        self.refusals = NotedEvents(self.database, EventTable("placement"))
        self.index = IndexRefresher(
            self.database, whole_classes=self.whole_classes, recent_s=self.settings.read_from_index_s
        )

    @property
    def whole_classes(self) -> frozenset[str]:
        """Return the resource classes of which one claim may take all that is free, whatever max_unit says."""
        return frozenset({IPV4_ADDRESS}) if self.settings.implied_addresses else frozenset()

    @property
    def counted_only(self) -> bool:
        """Return whether addresses are implied only of segments that a round with Neutron has counted."""
        return self.neutron is not None

    def wake_poller(self, resource_class: str) -> None:
        """Ask for a round with Neutron soon, if it is asked at all, as an inventory of addresses has changed."""
        if self.wakeups is not None and self.neutron is not None and resource_class == IPV4_ADDRESS:
            self.wakeups.send(NEUTRON_CHANNEL)


async def sync_standard_names(ledger: Ledger) -> None:
    """Insert the standard resource classes and traits that are missing; once, when a process starts."""
    async with ledger.database.transaction() as tx:
        for kind, names in STANDARD_ORDERS.items():
            await names_store.insert_names(tx, kind, names)
            ledger.standard_ids[kind] = await names_store.list_ids(tx, kind, names)
