"""Claims of ports' addresses in the ledger: announced by an intent, made in sets, given up when nothing follows.

An address is planned (rules/requests.py), claimed here, and given (addresses.py). The transaction that plans writes an
intent: it says that a claim is on its way. The transaction that gives closes it. If the process dies in between, the
intent expires, and the reconciler gives the claim back. Claims of what ports give up follow by releases.py.
No client is given an address while hosts may have guests with addresses that nobody here knows.
"""

from collections import Counter
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from datetime import timedelta

from msgspec import Struct

from roost.network.errors import AddressesWithheld, IpAddressGenerationFailure, PortChanged
from roost.network.model.ports import Port
from roost.network.rules import addressing
from roost.network.rules.capacity import port_claim
from roost.network.rules.requests import Placing
from roost.network.service import Networks, availability, releases
from roost.network.store import addresses, ports
from roost.network.store import claims as store
from roost.platform.crash import crash_point
from roost.platform.database import Connection
from roost.platform.errors import RoostError
from roost.platform.repeat import at_once
from roost.seams.network import Port as BuildPort
from roost.seams.placement import Allocations, ClaimGroup, Refused, Rule, add_allocations

INTENTS_MAX = 1000
LOOK_AGAIN = timedelta(seconds=1)
"""How old the answer of the compute service may be. Without it, each port would cost another question."""

AddressesLeft = MutableMapping[tuple[str, ...], int]
"""(provider UUID, resource class) -> addresses left; of subnets that are no capacity: their ids -> addresses left."""


class Want(Struct, frozen=True, kw_only=True):
    """What a port is to get.

    placings: alternatives, of which it gets one. claim_held: the claim of the addresses that it has, which stays until
    it is trimmed. ticket: of the open intent of an existing port; None for a port that is still to be made.
    """

    port_id: str
    project_id: str
    placings: tuple[Placing, ...]
    claim_held: Allocations = {}
    ticket: int | None = None


class Intents:
    """Open intents of ports. A block that fails or is cancelled leaves no intent and no claim of theirs.

    Without the database the intents expire. A commit whose answer is lost opens an intent too, so a ticket is kept as
    soon as its row is written.
    """

    def __init__(self, networks: Networks) -> None:
        self.tickets: dict[str, int] = {}
        self._networks = networks

    async def open(self, tx: Connection, port_ids: Collection[str], *, anew: bool = False) -> None:
        """Say that claims for these ports are about to be made (R6). Raises PortChanged when somebody else makes one.

        The ports are locked, or do not exist yet. anew: replace the intents that they have; who
        opened those was cut off.
        """
        if anew:
            _releasing, tickets = await store.list_busy(tx, list(port_ids))
            await store.delete_intents(tx, tickets)
        opened = await store.insert_intents(tx, sorted(port_ids), self._networks.settings.intent_s) if port_ids else {}
        self.tickets |= opened
        for port_id in port_ids:
            if port_id not in opened:
                raise PortChanged(f"Port {port_id} is just being given an address: repeat the request.")

    async def close(self, tx: Connection) -> dict[str, PortChanged]:
        """End the intents, as what was claimed is given; return by port id the error of each that was gone.

        The reconciler may have given the claim of such a port back.
        """
        closed = await store.delete_intents(tx, self.tickets)
        return {port_id: _too_late(port_id) for port_id in self.tickets if port_id not in closed}

    async def claim(self, port: Port | BuildPort, placings: tuple[Placing, ...], claim_held: Allocations) -> Placing:
        """Claim one of the placings for a port with an open intent; return it. Raises the error that `claim` returns.

        claim_held: as Want has it.
        """
        ticket = self.tickets[port.id]
        want = Want(
            port_id=port.id, project_id=port.project_id, placings=placings, claim_held=claim_held, ticket=ticket
        )
        (answer,) = (await claim(self._networks, [want])).values()
        if isinstance(answer, RoostError):
            raise answer
        return answer

    async def resume(self, tx: Connection, port: Port) -> Port:
        """Lock the port that was claimed for and close its intent; return it.

        Raises PortChanged if the port changed, or if its intent is gone.
        """
        now = (await ports.lock_ports(tx, [port.id])).get(port.id)
        if now is None or now.revision != port.revision:
            raise PortChanged(f"Port {port.id} changed while it was given an address: repeat the request.")
        for error in (await self.close(tx)).values():
            raise error
        return now

    async def __aenter__(self) -> "Intents":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await abandon(self._networks, self.tickets)


async def _abandon(networks: Networks, tickets: Mapping[str, int]) -> None:
    """Drop the ports' intents and give back what was claimed under them, unless somebody else claims for a port now.

    tickets: by port id, of intents that may be gone.
    """
    async with networks.database.transaction() as tx:
        await ports.lock_ports(tx, sorted(tickets))
        await store.delete_intents(tx, tickets)
        hanging = await store.release_hanging(tx, list(tickets))
    await releases.work_off_now(networks, hanging)


abandon = at_once(_abandon, "releasing ports' claims")


async def refuse_while_recovering(networks: Networks) -> None:
    """Raise AddressesWithheld while the compute service recovers records that went back in time."""
    now = networks.env.now()
    asked_at, reason = networks.recovery_seen
    if asked_at is None or not asked_at <= now < asked_at + LOOK_AGAIN:
        reason = await networks.compute.tell_recovery()
        networks.recovery_seen = now, reason
    if reason is not None:
        raise AddressesWithheld(f"no address is given to anyone now: {reason}")


async def expire_intents(networks: Networks) -> int:
    """Order the release of claims whose intents have expired: who made them has died. Return how many."""
    async with networks.database.transaction() as tx:
        expired = await store.list_expired_intents(tx, INTENTS_MAX)
        if not expired:
            return 0
        await ports.lock_ports(tx, list(expired))
        gone = await store.delete_intents(tx, expired)
        return len(await store.release_hanging(tx, sorted(gone)))


async def claim(networks: Networks, wants: Sequence[Want]) -> dict[str, Placing | RoostError]:
    """Claim one of its placings for each port; return by port id the placing, or the error.

    The best placings are tried first, of equals that with most free. IpAddressGenerationFailure: there is no room.
    PortChanged: somebody else claims for the port, or its intent is gone; the caller then abandons the claim.
    """
    choosing = [want for want in wants if len(want.placings) > 1]
    addresses_left = await _list_addresses_left(networks, choosing) if choosing else {}
    generations = await _read_generations(networks, [want for want in wants if want.ticket is not None])
    answers: dict[str, Placing | RoostError] = {
        want.port_id: _too_late(want.port_id)
        for want in wants
        if want.ticket is not None and want.port_id not in generations
    }
    # Of several, what is full is not claimed: a network that is full all over would cost a claim for each segment.
    untried = {
        want.port_id: [p for p in want.placings if len(want.placings) == 1 or _room(addresses_left, _counted(p)) > 0]
        for want in wants
    }
    crash_point("port.before-claim")
    while waiting := [want for want in wants if want.port_id not in answers and untried[want.port_id]]:
        placings = {want.port_id: _take_best(addresses_left, untried[want.port_id]) for want in waiting}
        groups: dict[str, ClaimGroup] = {}
        for want in waiting:
            if claim_new := placings[want.port_id].claim:
                allocations = add_allocations(want.claim_held, claim_new)
                claim_wanted = port_claim(want.port_id, want.project_id, allocations, generations.get(want.port_id))
                groups[want.port_id] = ClaimGroup((claim_wanted,))
        results = await networks.placement.claim(list(groups.values())) if groups else []
        refused = {port_id: item for port_id, item in zip(groups, results, strict=True) if isinstance(item, Refused)}
        answers |= {port_id: placing for port_id, placing in placings.items() if port_id not in refused}
        for port_id, item in refused.items():
            if any(shortfall.rule is Rule.CONSUMER_GENERATION for shortfall in item.shortfalls):
                text = f"Port {port_id} is being claimed for by somebody else: repeat the request."
                answers[port_id] = PortChanged(text)
    crash_point("port.after-claim")
    return answers | await _describe_exhausted(networks, [want for want in wants if want.port_id not in answers])


async def _read_generations(networks: Networks, wants: Sequence[Want]) -> dict[str, int | None]:
    """Return the consumers' generations of the ports whose intents are still open; None for no consumer.

    A generation counts only if it was read under the intent. A claim with a later one would replace a claim that
    somebody else has made since. The port may have that claim's address by now.
    """
    if not wants:
        return {}
    consumers = await networks.placement.get_consumers([want.port_id for want in wants])
    async with networks.database.connection() as connection:
        _releasing, tickets = await store.list_busy(connection, [want.port_id for want in wants])  # R7
    return {
        want.port_id: consumers[want.port_id].generation if want.port_id in consumers else None
        for want in wants
        if tickets.get(want.port_id) == want.ticket
    }


async def _list_addresses_left(networks: Networks, wants: Sequence[Want]) -> AddressesLeft:
    placings = [placing for want in wants for placing in want.placings]
    usages = await networks.placement.list_usages(sorted({placing.provider_uuid for placing in placings}))
    addresses_left: AddressesLeft = {
        (uuid, name): total - used for uuid, by_class in usages.items() for name, (total, used) in by_class.items()
    }
    uncounted = sum(map(_uncounted, placings), Counter[tuple[str, ...]]())
    if uncounted:
        amounts = {subnet_id: uncounted.total() for subnet_ids in uncounted for subnet_id in subnet_ids}
        async with networks.database.transaction() as tx:
            free = await addresses.list_free(tx, amounts, (), {})
        for subnet_ids in uncounted:
            addresses_left[subnet_ids] = sum(addressing.count(free.get(subnet_id, ())) for subnet_id in subnet_ids)
    return addresses_left


def _counted(placing: Placing) -> Counter[tuple[str, ...]]:
    """Return what a placing takes of its provider, by (provider UUID, resource class)."""
    return Counter({(placing.provider_uuid, name): amount for name, amount in placing.claimed.items()})


def _uncounted(placing: Placing) -> Counter[tuple[str, ...]]:
    """Return what a placing takes of subnets that are no capacity, by their ids: no claim says if they have room.

    A placing without room there is tried last: giving its address then says which subnet is full.
    """
    return Counter(d.subnet_ids for d in placing.demands if d.in_pool and not d.claimed and d.address is None)


def _room(addresses_left: AddressesLeft, needs: Mapping[tuple[str, ...], int]) -> int:
    """Return how many ports with such needs there is still room for; 1 if they need nothing."""
    return min((addresses_left.get(key, 0) // amount for key, amount in needs.items()), default=1)


def _take_best(addresses_left: AddressesLeft, untried: list[Placing]) -> Placing:
    """Take the best placing off the untried ones, and what it needs off what is left; return it."""

    def worth(placing: Placing) -> tuple[bool, int, int, int]:
        roomy = _room(addresses_left, _uncounted(placing)) > 0
        return roomy, -placing.rank, len(placing.demands), _room(addresses_left, _counted(placing))

    best = max(untried, key=worth)
    untried.remove(best)
    for key, amount in (_counted(best) + _uncounted(best)).items():
        addresses_left[key] = addresses_left.get(key, 0) - amount
    return best


async def _describe_exhausted(networks: Networks, wants: Sequence[Want]) -> dict[str, Placing | RoostError]:
    tried = {want.port_id: tuple(dict.fromkeys(item.provider_uuid for item in want.placings)) for want in wants}
    texts = {providers: await availability.describe_claims(networks, providers) for providers in set(tried.values())}
    return {port_id: IpAddressGenerationFailure(texts[providers]) for port_id, providers in tried.items()}


def _too_late(port_id: str) -> PortChanged:
    """Return the error of a port whose intent is gone. Its claim may have been given back meanwhile."""
    return PortChanged(f"Port {port_id}: giving it an address took too long: repeat the request.")
