"""Audit of what the ledger and the host aggregates have of segments, and of networks without any.

Whatever is to be said to them is noted as a publication before, and hosts that are being put in their places are
known to the compute service: what differs without either, twice in a row and in the same way, is drift.
"""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model.networks import FLAT_NAME, PLAIN_NAME, ProviderSource
from roost.network.rules import capacity, segments
from roost.network.rules import drift as rules
from roost.network.service import Networks
from roost.network.service import capacity as service
from roost.network.store import audit as store
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.network.store import subnets as subnet_rows
from roost.platform.audit import Check, Finding, all_at_once, keys_of, read_pages
from roost.platform.errors import Conflict
from roost.seams.placement import SEGMENT_NAME

PROVIDERS_PAGE = 500
PREFIXES = (SEGMENT_NAME.format(""), PLAIN_NAME.format(""), FLAT_NAME.format(""))

ProviderFinding = Finding[str, tuple[ProviderSource | None, int]]
"""Of a provider: what stands behind it, and how often something was to be said of it."""


async def _list_providers(networks: Networks) -> AsyncIterator[Sequence[str]]:
    """Yield providers that nothing stands behind, then all others: one may have the name of one that is missing."""
    async with networks.database.transaction() as tx:
        uuids = sorted(source.provider_uuid for source in await subnet_rows.list_sources(tx))
    for prefix in PREFIXES:

        async def read(after: str, prefix: str = prefix) -> list[tuple[str, str]]:
            named = await networks.placement.list_named_providers(prefix, after=after, limit=PROVIDERS_PAGE)
            return list(named.items())

        async for page in read_pages(read, lambda named: named[1]):
            yield sorted({uuid for uuid, _ in page}.difference(uuids))
    for start in range(0, len(uuids), PROVIDERS_PAGE):
        yield uuids[start : start + PROVIDERS_PAGE]


async def _find_providers(networks: Networks, uuids: Sequence[str]) -> list[ProviderFinding]:
    """Return providers that are missing, wrong, or have nothing behind them, of which nothing is to be said."""
    async with networks.database.transaction(snapshot=True) as tx:
        sources = {source.provider_uuid: source for source in await subnet_rows.list_sources(tx, uuids)}
        said = await store.list_publications(tx, uuids)
    there = await networks.placement.get_providers(uuids)
    findings = []
    for uuid in uuids:
        source, (wanted, due) = sources.get(uuid), said.get(uuid, (0, False))
        state = capacity.provider_state(source) if source else None
        drift = rules.judge_provider(uuid, state, there.get(uuid), sourced=source is not None)
        if drift is not None and not due:
            findings.append(Finding(drift, uuid, (source, wanted)))
    return findings


async def _publish_found(networks: Networks, findings: Sequence[ProviderFinding]) -> set[str]:
    return await _publish(networks, keys_of(findings))


async def _publish(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Say again what is true of these; returns those of which it was said: none if the ledger refuses one's name."""
    async with networks.database.transaction() as tx:
        await publication_rows.want(tx, provider_uuids)
    try:
        stayed = await service.publish(networks, provider_uuids)
    except (PublicationPending, Conflict):
        return set()
    return set(provider_uuids) - stayed


PROVIDERS = Check(
    pages=_list_providers,
    look=_find_providers,
    repairs={rules.PROVIDER_STRAY: _publish_found, rules.PROVIDER_WRONG: _publish_found},
    twice=True,
)


class _Aggregate(Struct, frozen=True):
    """The providers that a host aggregate is of, and its members that are no hosts."""

    provider_uuids: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()


AggregateFinding = Finding[str, _Aggregate]


async def _find_aggregates(networks: Networks, _all: Sequence[str]) -> list[AggregateFinding]:
    """Return host aggregates that have not the hosts that reach their segment, and those of no segment.

    Nothing is to be said of them, and none of their hosts is being placed.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await subnet_rows.list_sources(tx)
        hosts = await network_rows.list_hosts(tx)
        said = await store.list_publications(tx, None)
    there = await networks.compute.list_host_aggregates()
    behind = await networks.compute.list_hosts_behind()
    known = {host.name for host in hosts}
    due = {uuid for uuid, (_, is_due) in said.items() if is_due}
    by_aggregate: dict[str, list[ProviderSource]] = {}
    for source in sources:
        by_aggregate.setdefault(segments.host_aggregate(source).uuid, []).append(source)
    wanted = rules.wanted_members(segments.aggregates_by_host(hosts, sources), sources)
    findings = []
    for uuid, mine in by_aggregate.items():
        members = set(there[uuid].hosts) - behind if uuid in there else None
        drift = rules.judge_aggregate(uuid, segments.host_aggregate(mine[0]).name, wanted[uuid] - behind, members)
        if drift is not None and not any(source.provider_uuid in due for source in mine):
            strangers = tuple(sorted((members or set()) - known))
            fact = _Aggregate(tuple(source.provider_uuid for source in mine), strangers)
            findings.append(Finding(drift, uuid, fact))
    for uuid, aggregate in there.items():
        of_segments = aggregate.name.startswith(PREFIXES) and uuid not in by_aggregate
        if of_segments and not any(aggregate.name.endswith(provider_uuid) for provider_uuid in due):
            drift = rules.AGGREGATE_STRAY.drift(uuid, "no segment with subnets stands behind it", name=aggregate.name)
            findings.append(Finding(drift, uuid, _Aggregate()))
    return findings


async def _delete_aggregates(networks: Networks, findings: Sequence[AggregateFinding]) -> list[str]:
    """A segment may get a subnet while its host aggregate is deleted: then it is said again."""
    strays = keys_of(findings)
    await networks.compute.delete_host_aggregates(sorted(strays))
    async with networks.database.transaction() as tx:
        sources = await subnet_rows.list_sources(tx)
    renewed = [source.provider_uuid for source in sources if segments.host_aggregate(source).uuid in strays]
    if renewed:
        await _publish(networks, renewed)
    return strays


async def _fill_aggregates(networks: Networks, findings: Sequence[AggregateFinding]) -> list[str]:
    await _publish(networks, sorted({uuid for finding in findings for uuid in finding.fact.provider_uuids}))
    for uuid, strangers in ((finding.item, finding.fact.strangers) for finding in findings):
        # Hosts that nobody knows are named in no publication.
        if strangers:
            gone = dict.fromkeys(strangers, frozenset[str]())
            await networks.compute.set_segment_aggregates(gone, managed=frozenset({uuid}))
    return keys_of(findings)


AGGREGATES = Check(
    pages=all_at_once,
    look=_find_aggregates,
    repairs={rules.AGGREGATE_STRAY: _delete_aggregates, rules.AGGREGATE_WRONG: _fill_aggregates},
    twice=True,
)
