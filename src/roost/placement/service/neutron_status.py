"""What an operator asks of a ledger beside a Neutron before he relies on it: one look that writes nothing."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from roost.placement.rules.neutron_sight import Sight
from roost.placement.search.topology import list_hosts_on_two_segments, list_segments_without_hosts
from roost.placement.service.ledger import Ledger
from roost.placement.service.neutron import read_address_figures, run_round
from roost.placement.service.neutron_view import NeutronView
from roost.placement.store import neutron as store
from roost.seams.neutron import NeutronClient, NeutronUnavailable


class NeutronStatus(Struct, frozen=True, kw_only=True):
    """What one look found.

    fault: why Neutron could not be asked, and then sight is the last round's; "": it could. differences: between
    Neutron and the ledger now. rounds: what the last round of a poller kept; round_age_s: seconds since it ended, None
    where there was none. segments_without_hosts: UUIDs; hosts_on_two_segments: (host, network id). searches_age_s: of
    searches that name segments (True) and that do not (False), seconds since the last; none: never seen.
    """

    sight: Sight
    fault: str = ""
    differences: int = 0
    rounds: Sight = Sight()
    round_age_s: float | None = None
    segments_without_hosts: Sequence[str] = ()
    hosts_on_two_segments: Sequence[tuple[str, str]] = ()
    searches_age_s: Mapping[bool, float] = {}


async def look_at_neutron(ledger: Ledger, neutron: NeutronClient) -> NeutronStatus:
    """Ask Neutron as a round does, and the ledger what rounds and searches left there. Raises DatabaseUnavailable."""
    index = await ledger.index.fresh()
    without_hosts, on_two = list_segments_without_hosts(index), list_hosts_on_two_segments(index)
    figures, round_age_s = await read_address_figures(ledger)
    async with ledger.database.connection() as connection:
        searches_age_s = await store.list_searches_seen(connection)
    sight, fault, differences = figures.sight, "", 0
    try:
        view = NeutronView(grace_s=ledger.claim_grace_s, zones=ledger.neutron_zones)
        done = await run_round(ledger, neutron, view, dry_run=True)
        sight, differences = done.sight, len(done.drifts)
    except NeutronUnavailable as error:
        fault = str(error)
    return NeutronStatus(
        sight=sight, fault=fault, differences=differences, rounds=figures.sight, round_age_s=round_age_s,
        segments_without_hosts=without_hosts, hosts_on_two_segments=on_two, searches_age_s=searches_age_s,
    )  # fmt: skip


async def keep_searches_seen(ledger: Ledger) -> None:
    """Keep which kinds of searches this process has seen since it was asked last."""
    kinds, ledger.searches_seen = ledger.searches_seen, set()
    if kinds:
        async with ledger.database.connection() as connection:
            await store.note_searches(connection, kinds)
