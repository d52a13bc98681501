"""Decides which guests that nobody asked for hold their addresses, and how that is told to people.

An agent may be wrong, or lie: no host holds more than its size allows. Which addresses there are to hold is the network
service's to say.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.unknown_guests import UnknownGuest
from roost.seams import unknown_guests as seam
from roost.seams.agent import GuestAttempt, GuestKey, ListedGuest

HOLDING_MAX = 64
"""Unknown guests of one host that hold addresses, if it has as many VCPUs."""


class Chosen(Struct, frozen=True):
    """Unknown guests by what becomes of their addresses.

    holding: they hold them. over_bound: their host's others hold as many as may be. silent: their agent says nothing.
    """

    holding: tuple[UnknownGuest, ...] = ()
    over_bound: tuple[UnknownGuest, ...] = ()
    silent: tuple[UnknownGuest, ...] = ()


def kept_of(guest: GuestAttempt) -> ListedGuest | None:
    """Return what is kept of a listed guest: not its sequence, which changes with every guest of its host."""
    return replace(guest, sequence=0) if isinstance(guest, ListedGuest) and guest.state is not None else None


def choose_holding(guests: Iterable[UnknownGuest]) -> Chosen:
    """Return which guests hold their addresses: of each host the first that were listed, so that none gives way later.

    guests: all of their hosts, in that order.
    """
    holding, over_bound, silent = list[UnknownGuest](), list[UnknownGuest](), list[UnknownGuest]()
    counts: dict[str, int] = {}
    for guest in guests:
        if guest.listed is None:
            silent.append(guest)
            continue
        counts[guest.host] = counts.get(guest.host, 0) + 1
        (holding if counts[guest.host] <= min(guest.vcpus, HOLDING_MAX) else over_bound).append(guest)
    return Chosen(tuple(holding), tuple(over_bound), tuple(silent))


def with_nics(guest: UnknownGuest) -> seam.UnknownGuest:
    """Return the guest as the network service is told of it."""
    nics = guest.listed.nics if guest.listed else ()
    return seam.UnknownGuest(
        server_id=guest.server_id,
        host=guest.host,
        nics=tuple(
            seam.ListedNic(mac_address=nic.mac_address, addresses=nic.addresses, network_id=nic.network_id)
            for nic in nics
        ),
    )


def by_key(answers: Iterable[seam.HeldAddresses]) -> dict[GuestKey, seam.HeldAddresses]:
    """Return what the network service says of guests, by guest."""
    return {(answer.server_id, answer.host): answer for answer in answers}


def describe_addresses(guest: UnknownGuest, chosen: Chosen, answer: seam.HeldAddresses | None) -> str:
    """Return what of a guest's addresses is held and why the others are not, in one sentence without a full stop.

    answer: None where the network service was not asked.
    """
    if guest in chosen.silent:
        return "its agent does not say its addresses, so none is held"
    if guest in chosen.over_bound:
        bound = min(guest.vcpus, HOLDING_MAX)
        return f"none of its addresses is held: {bound} unknown guests of its host hold theirs, and that is the bound"
    if answer is None or not (answer.addresses_held or answer.free or answer.used or answer.unknown):
        return "it has no address"
    parts = [
        (answer.addresses_held, "held"),
        (answer.free, "not held yet"),
        ([holder.address for holder in answer.used], "another's too"),
        (answer.unknown, "of no subnet that its host reaches"),
    ]
    return ", ".join(f"{_joined(addresses)} {_is(addresses)} {words}" for addresses, words in parts if addresses)


def _joined(addresses: Sequence[str]) -> str:
    return " and ".join(([", ".join(addresses[:-1])] if addresses[1:] else []) + list(addresses[-1:]))


def _is(addresses: Sequence[str]) -> str:
    return "are" if addresses[1:] else "is"
