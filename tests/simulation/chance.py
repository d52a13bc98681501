"""A clock and identifiers that the seed decides: the same seed is the same story."""

import uuid
from datetime import UTC, datetime, timedelta
from random import Random

from roost.platform.env import Env

SKEW_S_MAX = 120.0


class SeededEnv:
    """What `Env` asks. skew_s: by how much this machine's clock is wrong; leases must not care."""

    def __init__(self, seed: int) -> None:
        self._uuids = Random(f"uuids of {seed}")
        self.skew_s = 0.0
        self.env = Env(now=self._now, new_uuid=self._new_uuid, random=Random(f"choices of {seed}"))

    def _now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.skew_s)

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._uuids.getrandbits(128), version=4))
