"""What the ledger's operations work with."""

from dataclasses import dataclass, field

import os_resource_classes
import os_traits

from roost.placement.service.refresh import IndexRefresher
from roost.placement.settings import PlacementSettings
from roost.placement.store import names as names_store
from roost.platform.batches import Batches
from roost.platform.database import Database
from roost.platform.env import Env
from roost.seams.placement import Claimed, ClaimGroup, Refused

STANDARD_CLASSES = frozenset(os_resource_classes.STANDARDS)
STANDARD_TRAITS = frozenset(os_traits.get_traits())


@dataclass
class Ledger:
    """standard_class_ids, standard_trait_ids: name -> id; they never change. Custom ones come and go: look them up.

    claims: where single claims meet, made by the first of them.
    """

    database: Database
    env: Env = field(default_factory=Env)
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    standard_class_ids: dict[str, int] = field(default_factory=dict)
    standard_trait_ids: dict[str, int] = field(default_factory=dict)
    index: IndexRefresher = field(init=False)
    claims: Batches[ClaimGroup, Claimed | Refused] | None = None

    def __post_init__(self) -> None:
        """The index is filled by the first search."""
        self.index = IndexRefresher(self.database)


async def sync_standard_names(ledger: Ledger) -> None:
    """Have every standard resource class and trait in the ledger; once, when a process starts."""
    names = list(os_resource_classes.STANDARDS)
    async with ledger.database.transaction() as tx:
        await names_store.insert_resource_classes(tx, names)
        await names_store.insert_traits(tx, sorted(STANDARD_TRAITS))
        ledger.standard_class_ids.update(await names_store.list_class_ids(tx, names))
        ledger.standard_trait_ids.update(await names_store.list_trait_ids(tx, sorted(STANDARD_TRAITS)))
