"""Audit of the providers and host aggregates of segments, and of networks without any.

A change of them is noted as a publication first. The compute service knows the hosts that still change aggregates.
What differs without either, twice in a row and in the same way, is drift.
"""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model.networks import FLAT_NAME, PLAIN_NAME, ProviderSource
from roost.network.rules import capacity, segments
from roost.network.rules import drift as rules
from roost.network.service import Networks
from roost.network.service import capacity as service
from roost.network.store import networks as network_rows
from roost.network.store import publications as publication_rows
from roost.platform.audit import Check, Finding, all_at_once, keys_of
from roost.platform.errors import Conflict
from roost.platform.grouping import grouped
from roost.seams.placement import SEGMENT_NAME

PROVIDERS_PAGE = 500
PREFIXES = (SEGMENT_NAME.format(""), PLAIN_NAME.format(""), FLAT_NAME.format(""))

ProviderFinding = Finding[str, ProviderSource | None]
"""A provider, with what stands behind it."""


async def _list_providers(networks: Networks) -> AsyncIterator[Sequence[str]]:
    """Yield providers with nothing behind them, then all others, since a stray may have the name of a missing one."""
    async with networks.database.transaction() as tx:
        uuids = sorted(source.provider_uuid for source in await network_rows.list_sources(tx))
    for prefix in PREFIXES:
        after = ""
        while named := await networks.placement.list_named_providers(prefix, after=after, limit=PROVIDERS_PAGE):
            yield sorted(named.keys() - uuids)
            after = list(named.values())[-1]
    for start in range(0, len(uuids), PROVIDERS_PAGE):
        yield uuids[start : start + PROVIDERS_PAGE]


async def _find_providers(networks: Networks, uuids: Sequence[str]) -> list[ProviderFinding]:
    """Return providers that are missing, wrong, or have nothing behind them.

    Left out are those with a due publication.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        sources = {source.provider_uuid: source for source in await network_rows.list_sources(tx, uuids)}
        due = await publication_rows.list_due(tx, uuids)
    providers = await networks.placement.get_providers(uuids)
    findings = []
    for uuid in uuids:
        source = sources.get(uuid)
        state = capacity.provider_state(source) if source else None
        drift = rules.judge_provider(uuid, state, providers.get(uuid), sourced=source is not None)
        if drift is not None and uuid not in due:
            findings.append(Finding(drift, uuid, source))
    return findings


async def _publish_found(networks: Networks, findings: Sequence[ProviderFinding]) -> set[str]:
    return await _publish(networks, keys_of(findings))


async def _publish(networks: Networks, provider_uuids: Sequence[str]) -> set[str]:
    """Publish these again; return those that the ledger took. If it refuses one of their names, it took none."""
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
    """The providers of a host aggregate, and its members that are no known hosts."""

    provider_uuids: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()


AggregateFinding = Finding[str, _Aggregate]


async def _find_aggregates(networks: Networks, _all: Sequence[str]) -> list[AggregateFinding]:
    """Return host aggregates whose hosts are not those that reach their segment, and aggregates of no segment.

    Left out are those with a due publication, and hosts that still change aggregates.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        sources = await network_rows.list_sources(tx)
        hosts = await network_rows.list_hosts(tx)
        due = await publication_rows.list_due(tx)
    aggregates = await networks.compute.list_host_aggregates()
    hosts_behind = await networks.compute.list_hosts_behind()
    known = {host.name for host in hosts}
    by_aggregate = grouped((segments.host_aggregate(source).uuid, source) for source in sources)
    members_wanted = rules.wanted_members(segments.aggregates_by_host(hosts, sources), sources)
    findings = []
    for uuid, its_sources in by_aggregate.items():
        name = segments.host_aggregate(its_sources[0]).name
        members = set(aggregates[uuid].hosts) - hosts_behind if uuid in aggregates else None
        drift = rules.judge_aggregate(uuid, name, members_wanted[uuid] - hosts_behind, members)
        if drift is not None and not any(source.provider_uuid in due for source in its_sources):
            strangers = tuple(sorted((members or set()) - known))
            fact = _Aggregate(tuple(source.provider_uuid for source in its_sources), strangers)
            findings.append(Finding(drift, uuid, fact))
    for uuid, aggregate in aggregates.items():
        of_segments = aggregate.name.startswith(PREFIXES) and uuid not in by_aggregate
        if of_segments and not any(aggregate.name.endswith(provider_uuid) for provider_uuid in due):
            drift = rules.AGGREGATE_STRAY.drift(uuid, "no segment with subnets stands behind it", name=aggregate.name)
            findings.append(Finding(drift, uuid, _Aggregate()))
    return findings


async def _delete_aggregates(networks: Networks, findings: Sequence[AggregateFinding]) -> list[str]:
    strays = keys_of(findings)
    await _publish(networks, await service.drop_aggregates(networks, set(strays)))
    return strays


async def _fill_aggregates(networks: Networks, findings: Sequence[AggregateFinding]) -> list[str]:
    wrong = keys_of(findings)
    await _publish(networks, sorted({uuid for finding in findings for uuid in finding.fact.provider_uuids}))
    strangers = {name for finding in findings for name in finding.fact.strangers}
    if strangers:  # no publication names hosts that nobody knows
        gone = dict.fromkeys(sorted(strangers), frozenset[str]())
        await networks.compute.set_segment_aggregates(gone, managed=frozenset(wrong))
    return wrong


AGGREGATES = Check(
    pages=all_at_once,
    look=_find_aggregates,
    repairs={rules.AGGREGATE_STRAY: _delete_aggregates, rules.AGGREGATE_WRONG: _fill_aggregates},
    twice=True,
)
