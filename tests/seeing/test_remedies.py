"""What `explain` proposes is made by the test in the cloud itself, and helps."""

from random import Random

import pytest
from msgspec.structs import replace
from tests.seeing.clouds import CROSSING, DEFAULTS, SHAPES, Cloud, boot, boot_until_refused, draw

from roost.placement.search.index import Index
from roost.seams.placement import DISABLED, VCPU
from roost.seeing.rules.changes import Change, ChangeKind
from roost.seeing.rules.explanations import Explained, explain_servers
from roost.seeing.rules.questions import Question

DRAWS = 100


def keep_used(cloud: Cloud, index: Index) -> None:
    """Have the cloud's providers used as the index says."""
    for uuid, provider in cloud.providers.items():
        cloud.providers[uuid] = replace(provider, used=dict(index.used[index.row_by_uuid[uuid]]))


def change_cloud(cloud: Cloud, change: Change) -> None:
    """Do as an operator does: enable a host, move servers off it, add a range to a pool, connect a host."""
    provider = cloud.providers[change.provider_uuid]
    match change.kind:
        case ChangeKind.OPEN_HOST:
            provider = replace(provider, traits=provider.traits - {DISABLED})
        case ChangeKind.FREE_ON_HOST:
            freed = {name: provider.used[name] - amount for name, amount in change.amounts}
            assert min(freed.values()) >= 0, "no more is freed than is used"
            provider = replace(provider, used={**provider.used, **freed})
        case ChangeKind.RAISE_RATIO:
            raised = replace(provider.inventories[VCPU], allocation_ratio=change.ratio)
            provider = replace(provider, inventories={**provider.inventories, VCPU: raised})
        case ChangeKind.GROW_SEGMENT:
            totals = {name: provider.inventories[name].total + amount for name, amount in change.amounts}
            grown = {n: replace(provider.inventories[n], total=t, max_unit=t) for n, t in totals.items()}
            provider = replace(provider, inventories={**provider.inventories, **grown})
        case ChangeKind.REACH_SEGMENT:
            aggregates = provider.placement_aggregates | {change.placement_aggregate}
            provider = replace(provider, placement_aggregates=aggregates)
    cloud.providers[change.provider_uuid] = provider


def explain_next(cloud: Cloud, *, count: int = 1) -> Explained:
    question = Question("the flavor", tuple(cloud.requests()))
    return explain_servers(cloud.index(), question, Random(1), DEFAULTS, count=count)


@pytest.mark.parametrize("number", range(DRAWS))
def test_each_change_that_is_proposed_helps(number: int) -> None:
    cloud = draw(f"why-{number}", SHAPES if number % 2 else CROSSING)
    index = cloud.index()
    boot_until_refused(index, cloud.requests(), Random(number))
    keep_used(cloud, index)
    explained = explain_next(cloud)
    assert explained.served == 0
    assert explained.message.startswith("No ")
    for remedy in explained.remedies:
        changed = replaced(cloud)
        for change in remedy:
            assert boot(changed.index(), changed.requests(), Random(2)) is None, "it takes all of them"
            change_cloud(changed, change)
        assert boot(changed.index(), changed.requests(), Random(3)) is not None, remedy
    assert len(explained.remedies) <= 5


@pytest.mark.parametrize("number", range(DRAWS))
def test_each_change_that_is_proposed_helps_all_of_several(number: int) -> None:
    cloud = draw(f"many-{number}", SHAPES)
    index = cloud.index()
    count = boot_until_refused(index.copy(), cloud.requests(), Random(number)) + 1 + number % 3
    explained = explain_next(cloud, count=count)
    assert explained.served < count
    assert sum(explained.hosts.values()) == explained.served
    for remedy in explained.remedies:
        changed = replaced(cloud)
        for change in remedy:
            change_cloud(changed, change)
        assert boot_until_refused(changed.index(), changed.requests(), Random(3)) >= count, remedy


def replaced(cloud: Cloud) -> Cloud:
    """A copy of the cloud that may be changed."""
    return Cloud(dict(cloud.providers), cloud.networks, cloud.spec, cloud.nics, cloud.aggregates)
