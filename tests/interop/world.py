"""What a scenario works with: the cloud, Roost and its database."""

from functools import cached_property
from typing import Any

import gap  # type: ignore[import-not-found]
from tests.interop import books
from tests.interop.processes import Database, Roost


class World:
    """The cloud as its administrator has it, on a Roost that may be stopped and started."""

    def __init__(self, roost: Roost, database: Database) -> None:
        self.roost, self.database = roost, database

    @cached_property
    def cloud(self) -> Any:
        """Return gap.py's cloud; the first time it is emptied."""
        return gap.fresh()

    def fresh(self) -> Any:
        """Return the cloud without servers and networks."""
        self.cloud.clean()
        return self.cloud

    def agree(self, limit_s: float = books.AGREES_S) -> float:
        """Wait until Placement and Neutron agree; returns the seconds."""
        return books.agree(self.cloud, limit_s)

    def restart_roost(self, **settings: str) -> None:
        """Start Roost again, with these settings besides those of all runs."""
        self.roost.stop()
        self.roost.start(**settings)
