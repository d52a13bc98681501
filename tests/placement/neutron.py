"""Neutron's part of the conversation with Placement, as an unmodified Neutron 29 has it: its service plugin `segments`.

Source: captured from Neutron 29; its services/segments/plugin.py and notifiers/batch_notifier.py, and neutron-lib's
placement/client.py. Microversion 1.1; no request id.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.placement.nova import Nova, Segment

from roost.seams.placement import IPV4_ADDRESS, SEGMENT_NAME

Event = Callable[[], Awaitable[None]]


class Dropped(Exception):
    """A thread of Neutron ends by an error that nothing catches, with all that it had to send."""


async def _nothing() -> None: ...


@dataclass
class Notifier:
    """Tells Placement of pools and ports, as increments. A Neutron that has deleted a network has two, told the same.

    The first is of the plugin that it loads, the second of the one that the deletion makes.
    before_each: what happens before each of its requests. sent: (method, path below the segment's provider, status).
    """

    nova: Nova
    before_each: Callable[[], Awaitable[None]] = _nothing
    sent: list[tuple[str, str, int]] = field(default_factory=list)

    async def send(self, *events: Event) -> bool:
        """Send a batch; returns whether all of it was sent, as nothing of it follows what fails."""
        try:
            for event in events:
                await event()
        except Dropped:
            return False
        return True

    def subnet(self, segment: Segment, addresses: int | None = None) -> Event:
        """An IPv4 subnet of a segment was made, with a gateway outside of its pools."""
        amount = segment.addresses if addresses is None else addresses
        return lambda: self._create_or_add(segment, total=amount + 1, reserved=1)

    def change(self, segment: Segment, *, total: int = 0, reserved: int = 0) -> Event:
        """Pools have changed, or a port that is no server's has come or gone."""

        async def add() -> None:
            if not await self._add(segment, total=total, reserved=reserved):
                raise Dropped("No resource provider")

        return add

    def delete(self, segment: Segment) -> Event:
        """A segment, or its last subnet, was deleted."""
        return lambda: self._delete(segment)

    async def _create_or_add(self, segment: Segment, *, total: int, reserved: int) -> None:
        if not await self._add(segment, total=total, reserved=reserved):
            await self._create(segment, total=total, reserved=reserved)

    async def _add(self, segment: Segment, *, total: int, reserved: int) -> bool:
        """Return whether there is a provider. What is sent names the generation that is there by then."""
        path = f"/inventories/{IPV4_ADDRESS}"
        status, inventory = await self._call("GET", segment, path)
        if status == 404 and "No resource provider with uuid" in inventory["errors"][0]["detail"]:
            return False
        if status != 200:
            raise Dropped(inventory)
        inventory["total"] += total
        inventory["reserved"] += reserved
        await self._put_inventory(segment, path, inventory)
        return True

    async def _create(self, segment: Segment, *, total: int, reserved: int) -> None:
        body: Any = {"name": SEGMENT_NAME.format(segment.uuid), "uuid": segment.uuid}
        await self._must("POST", None, "", body)
        if segment.aggregate in self.nova.aggregates:
            raise Dropped("Nova has an aggregate of that name")
        self.nova.aggregates[segment.aggregate] = set()
        await self._must("PUT", segment, "/aggregates", [segment.aggregate])
        for host in segment.hosts:
            await self.nova.add_host(segment.aggregate, host)
        inventory = {
            "total": total, "reserved": reserved, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0,
        }  # fmt: skip
        await self._put_inventory(segment, "/inventories", {"inventories": {IPV4_ADDRESS: inventory}})

    async def _put_inventory(self, segment: Segment, path: str, body: dict[str, Any]) -> None:
        """At a conflict it looks for a code that answers have only from 1.23 on, and ends: nothing is tried again."""
        provider = await self._must("GET", segment, "")
        body["resource_provider_generation"] = provider["generation"]
        await self._must("PUT", segment, path, body)

    async def _delete(self, segment: Segment) -> None:
        """Delete the aggregate and the provider; what Placement refuses is only logged."""
        status, body = await self._call("GET", segment, "/aggregates")
        if status not in (200, 404):
            raise Dropped(body)
        if status == 200 and not body["aggregates"]:
            raise Dropped("list index out of range")
        if status == 200 and body["aggregates"][0] in self.nova.aggregates:
            aggregate = body["aggregates"][0]
            try:
                for host in sorted(self.nova.aggregates[aggregate]):
                    await self.nova.remove_host(aggregate, host)
                del self.nova.aggregates[aggregate]
            except KeyError as error:
                raise Dropped("Nova has no such aggregate, or not this host in it") from error
        status, body = await self._call("DELETE", segment, "")
        if status >= 500:
            raise Dropped(body)

    async def _must(self, method: str, segment: Segment | None, path: str, body: Any = None) -> Any:
        status, answer = await self._call(method, segment, path, body)
        if status >= 400:
            assert "code" not in answer["errors"][0], "Neutron would try again"
            raise Dropped(answer)
        return answer

    async def _call(self, method: str, segment: Segment | None, path: str, body: Any = None) -> tuple[int, Any]:
        await self.before_each()
        full = f"/resource_providers{'' if segment is None else f'/{segment.uuid}'}{path}"
        headers = {"Accept": "application/json"}
        status, answer = await self.nova.api.call(method, full, body, version="1.1", headers=headers)
        self.sent.append((method, path, status))
        return status, answer
