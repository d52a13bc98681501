"""The watch over hosts that fall silent, in the processes that hear the agents. It heals: what it notes is state."""

from datetime import datetime

from roost.compute.rules import silence as rules
from roost.compute.rules.events import of_hosts, of_promises_kept, of_silent_cells, of_too_old
from roost.compute.rules.silence import Listening
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.hosts import publish_hosts
from roost.compute.store import cells as cell_rows
from roost.compute.store import hosts as store

PROMISE_MARGIN = 1.1
"""What the time that an agent promises is multiplied by: its clock may be slower than the database's."""


class SilenceWatch:
    """One listener's watch; as many as there are listeners may run at once."""

    def __init__(self, compute: Compute, listening: Listening | None = None) -> None:
        self._compute = compute
        self._listening = listening

    async def look(self) -> list[str]:
        """Record which hosts fell silent and publish them, however many they are, in one set; return their names.

        One that polls is not waited for: its poll notes and publishes that it is back.
        """
        compute, settings = self._compute, self._compute.settings
        before, self._listening = self._listening, None  # R27: a look that fails is a gap
        async with compute.database.transaction() as tx:
            listening = self._listen_on(before, await store.read_clock(tx))
            silent_after_s = settings.host_down_after_s - settings.look_s  # noted before it is too late, at this look
            names, names_fenced, cells_by_host = list[str](), list[str](), dict[str, str]()
            too_old_by_host = await store.note_too_old_hosts(tx, version_min=settings.service_version_min)
            if rules.has_listened(listening, for_s=silent_after_s):
                names = await store.note_silent_hosts(tx, silent_after_s=silent_after_s)
                names_fenced = await store.note_promises_kept(
                    tx,
                    lease_length_s=settings.host_down_after_s,
                    margin=PROMISE_MARGIN,
                    listened_s=rules.listened_s(listening),
                )
                cells_by_host = await cell_rows.note_silent_cells(tx, silent_after_s=silent_after_s)
            recorded = await record(
                tx,
                [
                    *of_hosts("silent", names, "its agent was not heard of"),
                    *of_promises_kept(names_fenced),
                    *of_silent_cells(cells_by_host),
                    *of_too_old(too_old_by_host, version_min=settings.service_version_min),
                ],
            )
        self._listening = listening
        recorded.tell()
        if names or cells_by_host or too_old_by_host:
            await publish_hosts(compute, sorted({*names, *cells_by_host, *too_old_by_host}))
            async with compute.database.connection() as connection:
                self._listening = Listening(listening.since, await store.read_clock(connection))  # that was no gap
        return names

    def _listen_on(self, before: Listening | None, now: datetime) -> Listening:
        return rules.listen_on(before, now, gap_max_s=self._compute.settings.gap_max_s)
