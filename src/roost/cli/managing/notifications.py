"""`roost-manage notifications`: how the destinations of notifications do, and another try of what they did not take."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct
from rich.console import Console

from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.tables import new_table, print_table
from roost.platform.outbox import DestinationState, Outbox

SERVICES = ("compute", "network")
STUCK = 3
"""The exit status while a destination takes nothing, or something is parked."""


class ServiceState(Struct, frozen=True):
    """A destination of one service's notifications."""

    service: str
    destination: DestinationState

    @property
    def is_stuck(self) -> bool:
        """Return whether an operator should look."""
        return self.destination.failures > 0 or self.destination.parked > 0


async def show(target: LedgerTarget, console: Console, *, retry_parked: bool, as_json: bool) -> int:
    """Print each destination, after its parked notifications were put back if asked for; return the exit status."""
    states: list[ServiceState] = []
    unparked = 0
    async with open_existing(target, schemas=SERVICES) as database:
        for service in SERVICES:
            outbox = Outbox(service)
            async with database.transaction() as tx:
                unparked += await outbox.unpark(tx) if retry_parked else 0
                states += [ServiceState(service, state) for state in await outbox.list_destinations(tx)]
    if as_json:
        listed = [{"service": state.service, **msgspec.structs.asdict(state.destination)} for state in states]
        answer = {"destinations": listed, "retried": unparked}
        print(msgspec.json.encode(answer).decode(), flush=True)  # noqa: T201
    else:
        _print(console, states, unparked if retry_parked else None)
    return STUCK if any(state.is_stuck for state in states) else 0


def _print(console: Console, states: Sequence[ServiceState], unparked: int | None) -> None:
    if unparked is not None:
        console.print(f"{unparked} parked notifications are tried again.")
    if not states:
        console.print("No notification was ever written: [notifications] in roost.toml names no destination.")
        return
    numbers = ("waiting", "parked", "longest wait")
    table = new_table("service", "destination", "waiting", "parked", "longest wait", "why", numbers=numbers)
    for state in states:
        destination = state.destination
        wait = "" if destination.waiting_s is None else str(timedelta(seconds=int(destination.waiting_s)))
        counts = str(destination.waiting), str(destination.parked)
        table.add_row(state.service, destination.name, *counts, wait, destination.reason or "")
    print_table(console, table)
