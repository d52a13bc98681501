"""The alerts of docs/howto/production.md: each is of figures that there are, and that of refused boots rises."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY
from tests.conductor.world import World
from tests.howto.rehearsal import BLOCK, FILE_NAME

from roost.platform.database import Database

DOCS = Path(__file__).parents[2] / "docs"
Labels = frozenset[tuple[str, str]]
NEW_OR_RISEN = re.compile(r"\(\((\w+) unless \1 offset 10m\) or increase\(\1\[10m\]\)\) > 0")
"""A figure that a process shows for the first time has no increase in PromQL: it was not 0 before, it was not there."""


def expressions() -> dict[str, str]:
    blocks = [text for _, text in BLOCK.findall((DOCS / "howto" / "production.md").read_text())]
    (text,) = [text for text in blocks if (match := FILE_NAME.match(text)) and match[1] == "alerts.yaml"]
    groups: Any = yaml.safe_load(text)["groups"]
    return {rule["alert"]: " ".join(rule["expr"].split()) for group in groups for rule in group["rules"]}


def scrape(name: str) -> Mapping[Labels, float]:
    """Label set -> value of one counter."""
    return {
        frozenset(sample.labels.items()): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == name
    }


def fires(expression: str, before: Mapping[Labels, float], after: Mapping[Labels, float]) -> bool:
    """Whether the expression holds, if 10 minutes passed between the two."""
    assert NEW_OR_RISEN.fullmatch(expression), expression
    return any(value - before.get(labels, 0.0) > 0 for labels, value in after.items())


def test_every_figure_of_an_alert_is_one_that_there_is() -> None:
    reference = (DOCS / "reference" / "metrics.md").read_text()
    for alert, expression in expressions().items():
        for name in re.findall(r"roost_\w+", expression):
            assert f"| `{name.removesuffix('_count')}` |" in reference, (alert, name)


@pytest.fixture
async def world(database: Database) -> World:
    made = await World.make(database)
    await made.hosts("h1", reach=["rack1"])
    return made


@pytest.mark.parametrize("physical_network", ["rack1", "rack9"])
async def test_the_alert_of_refused_boots_fires_when_every_boot_is_refused_and_else_not(
    world: World, physical_network: str
) -> None:
    expression = expressions()["RoostRefusesBoots"]
    name = NEW_OR_RISEN.fullmatch(expression)[1]  # type: ignore[index]
    network = await world.routed(**{physical_network: "10.1.0.0/29"})
    before = scrape(name)
    await world.boot(network.id, count=2)
    await world.run()
    assert fires(expression, before, scrape(name)) is (physical_network == "rack9")


async def test_the_alert_of_before_stays_silent(world: World) -> None:
    """A boot without room claims nothing, so no claim is refused."""
    network = await world.routed(rack9="10.9.0.0/29")
    before = scrape("roost_claim_shortfalls_total")
    await world.boot(network.id, count=2)
    await world.run()
    assert set((await world.statuses()).values()) == {"ERROR"}
    assert scrape("roost_claim_shortfalls_total") == before
