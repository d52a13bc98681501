"""Audit of what the ledger and the host aggregates have of segments, and of networks without any.

Whatever is to be said to them is noted as a publication before, and hosts that are being put in their places are
known to the compute service: what differs without either, twice in a row and in the same way, is drift.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model import FLAT_NAME, PLAIN_NAME, ROUTED_NAME, ProviderSource
from roost.network.rules import drift as rules
from roost.network.rules import inventory, segments
from roost.network.service import Networks, publications
from roost.network.store import audit as store
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.network.store import subnets as subnet_rows
from roost.platform.errors import Conflict
from roost.seams.audit import Drift, Kind, Repairs

PROVIDERS_PAGE = 500
PREFIXES = (ROUTED_NAME.format(""), PLAIN_NAME.format(""), FLAT_NAME.format(""))


class _Said(Struct, frozen=True):
    """What stands behind providers, and what was to be said about them, at one instant."""

    sources: Mapping[str, ProviderSource]
    wanted: Mapping[str, int]
    due: frozenset[str]


async def audit_providers(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Providers of segments and networks that are missing, wrong, or have nothing behind them."""
    before = await _read(networks, None)
    uuids = sorted(before.sources)
    found: list[Drift] = []
    for start in range(0, len(uuids), PROVIDERS_PAGE):
        page = uuids[start : start + PROVIDERS_PAGE]
        there = await networks.placement.get_providers(page)
        judged = [rules.judge_provider(u, inventory.provider_state(before.sources[u]), there.get(u)) for u in page]
        found += [drift for drift in judged if drift is not None]
    for prefix in PREFIXES:
        found += await _strays(networks, prefix, before)
    if not found:
        return []
    after = await _read(networks, [drift.key for drift in found])
    quiet = [drift for drift in found if _is_quiet(drift.key, before, after)]
    repaired: set[str] = set()
    # Strays first: one may have the name of one that is missing.
    for kind in (Kind.PROVIDER_STRAY, Kind.PROVIDER_WRONG):
        repaired |= await _publish(networks, [drift.key for drift in quiet if drift.kind is kind], repairs)
    return [msgspec.structs.replace(drift, repaired=drift.key in repaired) for drift in quiet]


async def _read(networks: Networks, provider_uuids: Sequence[str] | None) -> _Said:
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await subnet_rows.list_sources(tx, provider_uuids)
        said = await store.list_publications(tx, provider_uuids)
    return _Said(
        {source.provider_uuid: source for source in sources},
        {uuid: wanted for uuid, (wanted, _) in said.items()},
        frozenset(uuid for uuid, (_, due) in said.items() if due),
    )


def _is_quiet(uuid: str, before: _Said, after: _Said) -> bool:
    """Nothing was to be said of it all the while, so the ledger has to know it as it is."""
    same = before.sources.get(uuid) == after.sources.get(uuid) and before.wanted.get(uuid) == after.wanted.get(uuid)
    return same and uuid not in before.due | after.due


async def _strays(networks: Networks, prefix: str, before: _Said) -> list[Drift]:
    found: list[Drift] = []
    after = ""
    while page := await networks.placement.list_named_providers(prefix, after=after, limit=PROVIDERS_PAGE):
        after = list(page.values())[-1]
        found += [
            Drift(kind=Kind.PROVIDER_STRAY, key=uuid, name=name, says="no segment or network stands behind it")
            for uuid, name in page.items()
            if uuid not in before.sources
        ]
    return found


async def _publish(networks: Networks, provider_uuids: Sequence[str], repairs: Repairs) -> set[str]:
    """Say again what is true of these; returns those of which it was said: none if the ledger refuses one's name."""
    if repairs is Repairs.NONE or not provider_uuids:
        return set()
    async with networks.database.transaction() as tx:
        await publication_rows.want(tx, provider_uuids)
    try:
        stayed = await publications.publish(networks, provider_uuids)
    except (PublicationPending, Conflict):
        return set()
    return set(provider_uuids) - stayed


async def audit_aggregates(networks: Networks, *, repairs: Repairs) -> list[Drift]:
    """Host aggregates of segments, and of networks without any, that have not the hosts that reach them."""
    first = await _look(networks)
    again = await _look(networks) if first else {}
    found = [item for uuid, item in again.items() if uuid in first and first[uuid].drift == item.drift]
    if repairs is Repairs.NONE or not found:
        return [item.drift for item in found]
    strays = {item.drift.key for item in found if item.drift.kind is Kind.AGGREGATE_STRAY}
    if strays:
        await networks.compute.delete_host_aggregates(sorted(strays))
    # A segment may have got a subnet while its host aggregate was deleted: then it is said again.
    async with networks.database.transaction() as tx:
        sources = await subnet_rows.list_sources(tx) if strays else []
    renewed = {source.provider_uuid for source in sources if segments.host_aggregate(source).uuid in strays}
    await _publish(networks, sorted(renewed.union(*(item.provider_uuids for item in found))), repairs)
    for item in found:
        # Hosts that nobody knows are named in no publication.
        if item.strangers:
            strangers = dict.fromkeys(item.strangers, frozenset[str]())
            await networks.compute.set_segment_aggregates(strangers, managed=frozenset({item.drift.key}))
    return [msgspec.structs.replace(item.drift, repaired=True) for item in found]


class _Found(Struct, frozen=True):
    """Drift of a host aggregate, the providers that it is of, and members that are no hosts."""

    drift: Drift
    provider_uuids: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()


async def _look(networks: Networks) -> dict[str, _Found]:
    """Host aggregate -> its drift, where nothing is to be said of it and none of its hosts is being placed."""
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await subnet_rows.list_sources(tx)
        hosts = await network_rows.list_hosts(tx)
        said = await store.list_publications(tx, None)
    there = await networks.compute.list_segment_aggregates()
    behind = await networks.compute.list_hosts_behind()
    known = {host.name for host in hosts}
    due = {uuid for uuid, (_, is_due) in said.items() if is_due}
    by_aggregate: dict[str, list[ProviderSource]] = {}
    for source in sources:
        by_aggregate.setdefault(segments.host_aggregate(source).uuid, []).append(source)
    wanted = rules.wanted_members(segments.aggregates_by_host(hosts, sources), sources)
    found: dict[str, _Found] = {}
    for uuid, mine in by_aggregate.items():
        members = there.get(uuid)
        name = segments.host_aggregate(mine[0]).name
        has = None if members is None else set(members.hosts) - behind
        drift = rules.judge_aggregate(uuid, name, wanted[uuid] - behind, has)
        if drift is not None and not any(source.provider_uuid in due for source in mine):
            strangers = tuple(sorted((has or set()) - known))
            found[uuid] = _Found(drift, tuple(source.provider_uuid for source in mine), strangers)
    for uuid, members in there.items():
        if not members.name.startswith(PREFIXES) or uuid in by_aggregate:
            continue
        if not any(members.name.endswith(provider_uuid) for provider_uuid in due):
            says = "no segment with subnets stands behind it"
            found[uuid] = _Found(Drift(kind=Kind.AGGREGATE_STRAY, key=uuid, name=members.name, says=says))
    return found
