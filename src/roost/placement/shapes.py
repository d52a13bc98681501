"""Decides what must change of a provider to make it as it should be: inventories, traits, placement aggregates."""

from roost.placement.model import ProviderRow, ShapeChange
from roost.seams.placement import ProviderState


def decide_shape(state: ProviderState, row: ProviderRow) -> tuple[ShapeChange | None, frozenset[str]]:
    """What to write, None for nothing; and the resource classes whose inventory should go but is in use."""
    held = {name: inventory for name, (inventory, _used) in row.inventories.items()}
    wanted = held if state.inventories is None else dict(state.inventories)
    kept = row.traits - state.managed_traits if state.managed_traits is not None else frozenset[str]()
    traits = row.traits if state.traits is None else state.traits | kept
    aggregates = row.placement_aggregates if state.placement_aggregates is None else state.placement_aggregates
    gone = frozenset(held) - frozenset(wanted)
    in_use = frozenset(name for name in gone if row.inventories[name][1] > 0)
    change = ShapeChange(
        provider_id=row.id,
        name=state.name,
        inventories_set={name: inventory for name, inventory in wanted.items() if held.get(name) != inventory},
        inventories_gone=gone,
        traits_new=traits - row.traits,
        traits_gone=row.traits - traits,
        aggregates_new=aggregates - row.placement_aggregates,
        aggregates_gone=row.placement_aggregates - aggregates,
    )
    parts = (
        change.inventories_set, gone, change.traits_new, change.traits_gone, change.aggregates_new,
        change.aggregates_gone, state.name != row.name,
    )  # fmt: skip
    return (change if any(parts) else None), in_use
