"""A clock and identifiers that the seed decides: the same seed is the same story."""

import uuid
from datetime import UTC, datetime, timedelta
from random import Random

from roost.platform.env import Env

SKEW_S_MAX = 120.0
BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
YEARS_S = 20 * 365 * 86400


class SeededEnv:
    """What `Env` asks. skew_s: by how much this machine's clock is wrong; leases must not care. uuids_drawn: so far.

    It begins at an instant of the seed, and a millisecond passes each time that somebody looks.
    """

    def __init__(self, seed: int) -> None:
        self._uuids = Random(f"uuids of {seed}")
        self._instant = BEGINNING + timedelta(seconds=Random(f"instant of {seed}").randrange(YEARS_S))
        self.skew_s = 0.0
        self.uuids_drawn: list[str] = []
        self.env = Env(now=self._now, new_uuid=self._new_uuid, random=Random(f"choices of {seed}"))

    def _now(self) -> datetime:
        self.pass_time(0.001)
        return self._instant + timedelta(seconds=self.skew_s)

    def pass_time(self, for_s: float) -> None:
        """Have so much time passed."""
        self._instant += timedelta(seconds=for_s)

    def _new_uuid(self) -> str:
        self.uuids_drawn.append(str(uuid.UUID(int=self._uuids.getrandbits(128), version=4)))
        return self.uuids_drawn[-1]
