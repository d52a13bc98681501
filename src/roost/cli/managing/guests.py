"""`roost-manage guests`: the guests that hosts have and the records do not know, and what a person decides on them."""

import msgspec
from rich.console import Console

from roost.cli.managing.audit import open_compute
from roost.cli.managing.audit_report import print_json
from roost.cli.managing.ledger_target import LedgerTarget, TargetRefused
from roost.cli.tables import print_rows
from roost.compute.model.unknown_guests import UnknownGuest
from roost.compute.rules.unknown_guests import describe_addresses
from roost.compute.service import Compute
from roost.compute.service.adoptions import adopt_guest
from roost.compute.service.unknown_guests import destroy_unknown_guest, list_unknown_guests

NONE, SOME, DONE = 0, 3, 0


async def list_guests(target: LedgerTarget, console: Console, *, as_json: bool) -> int:
    """Print the unknown guests, and what of their addresses is held; return the exit status."""
    async with open_compute(target) as compute:
        guests, chosen, answers = await list_unknown_guests(compute)
    sentences = [describe_addresses(guest, chosen, answers.get((guest.server_id, guest.host))) for guest in guests]
    if as_json:
        documents = [
            {**msgspec.to_builtins(guest), "addresses": sentence, "holding": guest in chosen.holding}
            for guest, sentence in zip(guests, sentences, strict=True)
        ]
        print_json(console, msgspec.json.encode(documents))
    elif not guests:
        console.print("There are no unknown guests.")
    else:
        rows = [(*_columns(guest), sentence) for guest, sentence in zip(guests, sentences, strict=True)]
        print_rows(console, ("server", "host", "attempt", "name", "state", "server known", "addresses"), rows)
    return SOME if guests else NONE


async def destroy_guest(target: LedgerTarget, server_id: str, host: str | None) -> int:
    """Order a host to destroy a guest that Roost did not ask for; return the exit status.

    host: None for the only one that has it. Raises TargetRefused, GuestNotFound, GuestWanted.
    """
    async with open_compute(target) as compute:
        await destroy_unknown_guest(compute, server_id, host or await _find_host(compute, server_id))
    return DONE


async def adopt(target: LedgerTarget, console: Console, server_id: str, host: str | None) -> int:
    """Make an unknown guest its server's; return the exit status. Raises TargetRefused, GuestNotFound, GuestNotAdopted.

    host: None for the only one that has it.
    """
    async with open_compute(target) as compute:
        place = host or await _find_host(compute, server_id)
        await adopt_guest(compute, server_id, place)
    console.print(f"Server {server_id} is ACTIVE on host {place}.")
    return DONE


async def _find_host(compute: Compute, server_id: str) -> str:
    """Return the only host that lists such a guest. Raises TargetRefused where there is none, or several."""
    guests, _, _ = await list_unknown_guests(compute)
    hosts = [guest.host for guest in guests if guest.server_id == server_id]
    if len(hosts) != 1:
        which = f"hosts {' and '.join(hosts)} list one: name --host" if hosts else "no host lists one"
        raise TargetRefused(f"unknown guests of server {server_id}: {which}")
    return hosts[0]


def _columns(guest: UnknownGuest) -> tuple[str, ...]:
    listed = guest.listed
    state = "to be destroyed" if guest.destroying else (listed.state or "") if listed else "unsaid"
    known = "yes" if guest.server_known else "no"
    return (guest.server_id, guest.host, str(guest.attempt), listed.name if listed else "", state, known)
