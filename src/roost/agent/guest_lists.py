"""What an agent says of its guests beside orders: lists of all of them, and what they did by themselves.

A list heals whatever report was lost: it has each guest's state, and the driver's sequence tells which word is newer.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from roost.agent.drivers import Driver
from roost.seams.agent import GuestKey, GuestOrder, GuestReport, GuestState, ListedGuest
from roost.seams.guests import MemorySource

VERSION_SAYS_STATES = 5
"""Agents of this service version and later say what their guests are."""
OWN_COLLECT_S = 1.0
"""How long what guests did by themselves waits for more of it: what a host's end does is one event."""


def list_guests(driver: Driver, *, service_version: int, resumes: bool) -> list[ListedGuest]:
    """Return all guests as that version says them, in the order of their hosts' names as bytes.

    resumes: whether guests that their host's restart stopped are to run again.
    """
    guests = sorted(driver.list_guests(), key=lambda guest: guest.host.encode())
    if service_version < VERSION_SAYS_STATES:
        return [ListedGuest(server_id=item.server_id, host=item.host, attempt=item.attempt) for item in guests]
    return guests if resumes else [replace(guest, resume=False) for guest in guests]


def split_by_host(guests: Sequence[ListedGuest], size: int) -> list[tuple[str, str | None, Sequence[ListedGuest]]]:
    """Return (after, until, guests) for each page: all guests on hosts above `after` and up to `until`, or all others.

    guests: in the order of their hosts' names as bytes. size: guests in a page, more only where one host has more.
    """
    pages: list[tuple[str, str | None, Sequence[ListedGuest]]] = []
    start, after = 0, ""
    while len(guests) - start > size:
        end = start + size
        while end < len(guests) and guests[end].host == guests[end - 1].host:
            end += 1
        if end == len(guests):
            break
        pages.append((after, guests[end - 1].host, guests[start:end]))
        start, after = end, guests[end - 1].host
    return [*pages, (after, None, guests[start:])]


async def gather_own_changes(driver: Driver) -> set[GuestKey]:
    """Wait until guests have changed by themselves; return which, with those that do so soon after."""
    keys = set(await driver.own_changes())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OWN_COLLECT_S):
            while True:
                keys |= await driver.own_changes()
    return keys


def own_reports(driver: Driver, keys: Collection[GuestKey]) -> list[GuestReport]:
    """Return what those of the guests are that are there."""
    return [
        GuestReport(
            server_id=guest.server_id,
            host=guest.host,
            attempt=guest.attempt,
            state="unchanged",
            by_itself=True,
            power_state=guest.power_state,
            sequence=guest.sequence,
        )
        for guest in driver.list_guests()
        if guest.key in keys
    ]


def order_report(
    driver: Driver, order: GuestOrder, state: GuestState, *, message: str, meeting: MemorySource | None
) -> GuestReport:
    """Return what became of an order. meeting: where a guest that begins awaits its memory; else its order's."""
    return GuestReport(
        server_id=order.server_id,
        host=order.host,
        attempt=order.attempt,
        state=state,
        message=message,
        desired=order.desired if state == "unchanged" else None,
        sequence=sequence_of(driver, order.key, state),
        meeting=meeting or (order.meeting if state == order.desired else None),
        nics_version=order.nics_version if state == order.desired else None,
    )


def sequence_of(driver: Driver, key: GuestKey, state: str) -> int:
    """Return the driver's sequence as of when the guest came into a state; what it did by itself since is newer."""
    guest = driver.guests_by_key().get(key)
    if guest is None:
        return 0
    return guest.sequence if guest.state == state else max(guest.sequence - 1, 0)
