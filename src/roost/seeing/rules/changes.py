"""Changes of a cloud, made on a copy of the index: what would help, what is planned, what a drain does first."""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from roost.placement.model import ProviderRow
from roost.placement.search.index import NO_ROW, Delta, Index
from roost.seams.placement import DISABLED, Inventory


class ChangeKind(Enum):
    """What is changed, the cheapest first."""

    OPEN_HOST = "open_host"
    FREE_ON_HOST = "free_on_host"
    RAISE_RATIO = "raise_ratio"
    GROW_SEGMENT = "grow_segment"
    REACH_SEGMENT = "reach_segment"


class Change(Struct, frozen=True, kw_only=True):
    """One change of one host or segment. provider_uuid: its provider. place: its name.

    amounts: (resource class, amount) that is freed or added. network: the segment's. segment: that a host is to reach,
    with its placement aggregate. ratio: the allocation ratio of the only class of the amounts, raised to give as much.
    """

    kind: ChangeKind
    provider_uuid: str
    place: str
    amounts: tuple[tuple[str, int], ...] = ()
    network: str = ""
    segment: str = ""
    ratio: float = 0.0
    placement_aggregate: str = ""


def make(index: Index, changes: Sequence[Change]) -> None:
    """Make the changes in the index, one after the other."""
    for change in changes:
        row = index.find_row(change.provider_uuid)
        assert row is not None, "changes are of this index"
        provider = read_row(index, row)
        match change.kind:
            case ChangeKind.OPEN_HOST:
                provider = replace(provider, traits=provider.traits - {DISABLED})
            case ChangeKind.FREE_ON_HOST:
                freed = {name: provider.used[name] - amount for name, amount in change.amounts}
                provider = replace(provider, used={**provider.used, **freed})
            case ChangeKind.RAISE_RATIO:
                ((name, _),) = change.amounts
                raised = replace(provider.inventories[name], allocation_ratio=change.ratio)
                provider = replace(provider, inventories={**provider.inventories, name: raised})
            case ChangeKind.GROW_SEGMENT:
                provider = grown(provider, dict(change.amounts))
            case ChangeKind.REACH_SEGMENT:
                aggregates = provider.placement_aggregates | {change.placement_aggregate}
                provider = replace(provider, placement_aggregates=aggregates)
        index.apply(Delta(providers=[provider]))


def grown(provider: ProviderRow, amounts: Mapping[str, int]) -> ProviderRow:
    """Return a provider that has more of these resource classes, and gives as much in one claim as it has."""
    inventories = dict(provider.inventories)
    for name, amount in amounts.items():
        before = inventories[name]
        total = before.total + amount
        inventories[name] = replace(before, total=total, max_unit=max(before.max_unit, total))
    return replace(provider, inventories=inventories)


def close_hosts(index: Index, names: Collection[str]) -> list[str]:
    """Close hosts to every search; return which of the names are no host's."""
    rows = {index.names[row]: row for row in index.trees().hosts.nonzero()[0].tolist()}
    closed = [read_row(index, rows[name]) for name in names if name in rows]
    index.apply(Delta(providers=[replace(host, traits=host.traits | {DISABLED}) for host in closed]))
    return sorted(set(names) - rows.keys())


def add_host(index: Index, name: str, like: int, totals: Mapping[str, int]) -> None:
    """Add an empty host that reaches what the host of the row `like` does. totals: resource class -> its total."""
    model = read_row(index, like)
    provider_id = -len(index) - 1  # no provider of a database is below 0
    inventories = {
        resource_class: replace(inventory, total=total, max_unit=max(total, 1), reserved=0)
        if (total := totals.get(resource_class)) is not None
        else inventory
        for resource_class, inventory in model.inventories.items()
    }
    extra = {name: Inventory(total) for name, total in totals.items() if name not in inventories}
    host = replace(
        model,
        id=provider_id,
        root_id=provider_id,
        uuid=f"what-if{provider_id}",
        name=name,
        inventories=inventories | extra,
        used=dict.fromkeys(inventories | extra, 0),
        traits=model.traits - {DISABLED},
    )
    index.apply(Delta(providers=[host]))


def read_row(index: Index, row: int) -> ProviderRow:
    """Return a provider as a delta brings it."""
    parent = int(index.parent_row[row])
    return ProviderRow(
        id=index.ids[row],
        uuid=index.uuids[row],
        name=index.names[row],
        generation=index.generations[row],
        parent_id=None if parent == NO_ROW else index.ids[parent],
        root_id=index.ids[int(index.root_row[row])],
        inventories=index.inventories[row],
        used=index.used[row],
        traits=index.traits[row],
        placement_aggregates=index.placement_aggregates[row],
        network_id=index.networks.get(row),
    )
