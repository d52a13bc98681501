"""The audits' skeleton, on numbers in a dict: pages, the second look, what is held, the repairs in their order."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from roost.platform.audit import Audit, Check, Finding, keys_of, read_pages
from roost.platform.drift import Kind, RepairedBy, Repairs

SMALL = Kind("small", "a number is too small", "raised")
LARGE = Kind("large", "a number is too large", "lowered", RepairedBy.ASKED)
ODD = Kind("odd", "a number is odd", "by you", RepairedBy.PERSON)


@dataclass
class Numbers:
    """Numbers by name, of which 1 to 9 are right. meanwhile: what becomes of them while they are looked at."""

    numbers: dict[str, int]
    meanwhile: list[dict[str, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


async def pages(numbers: Numbers) -> AsyncIterator[Sequence[str]]:
    async def read(after: str) -> list[str]:
        return sorted(name for name in numbers.numbers if name > after)[:2]

    async for page in read_pages(read, str):
        numbers.said.append(f"page {' '.join(page)}")
        yield page


async def look(numbers: Numbers, names: Sequence[str]) -> list[Finding[str, int]]:
    numbers.said.append(f"look {' '.join(names)}")
    found = {name: numbers.numbers[name] for name in names}
    if numbers.meanwhile:
        numbers.numbers |= numbers.meanwhile.pop(0)
    small = [Finding(SMALL.drift(name, f"is {n}"), name, n) for name, n in found.items() if n < 1]
    return small + [Finding(LARGE.drift(name, f"is {n}"), name, n) for name, n in found.items() if n > 9]


async def correct(numbers: Numbers, findings: Sequence[Finding[str, int]]) -> list[str]:
    """Refuses 99."""
    numbers.said.append(f"correct {' '.join(keys_of(findings))}")
    kept = [finding for finding in findings if finding.fact != 99]
    numbers.numbers |= {finding.item: 5 for finding in kept}
    return keys_of(kept)


@asynccontextmanager
async def hold(numbers: Numbers) -> AsyncIterator[Numbers]:
    numbers.said.append("hold")
    yield numbers
    numbers.said.append("let go")


async def tell(numbers: Numbers, findings: Sequence[Finding[str, int]]) -> None:
    numbers.said.append(f"after {' '.join(keys_of(findings))}")


ONCE = Check(pages=pages, look=look, repairs={SMALL: correct, LARGE: correct, ODD: None})
TWICE = Check(pages=pages, look=look, repairs=ONCE.repairs, twice=True)
HELD = Check(pages=pages, hold=hold, look=look, repairs=ONCE.repairs, after=tell)


@pytest.mark.parametrize(
    ("repairs", "repaired", "left"),
    [
        (Repairs.NONE, [], {"a": 0, "b": 5, "c": 10, "d": 99}),
        (Repairs.ITSELF, ["a"], {"a": 5, "b": 5, "c": 10, "d": 99}),
        (Repairs.ALL, ["a", "c"], {"a": 5, "b": 5, "c": 5, "d": 99}),
    ],
)
async def test_only_what_may_be_is_repaired_and_a_refused_repair_is_none(
    repairs: Repairs, repaired: list[str], left: dict[str, int]
) -> None:
    numbers = Numbers({"a": 0, "b": 5, "c": 10, "d": 99})
    drifts = await ONCE.run(numbers, repairs=repairs)
    assert [drift.key for drift in drifts] == ["a", "c", "d"]
    assert [drift.key for drift in drifts if drift.repaired] == repaired
    assert numbers.numbers == left


@pytest.mark.parametrize(
    ("meanwhile", "found"),
    [({}, ["a", "b"]), ({"a": 5}, ["b"]), ({"a": -1}, ["b"]), ({"a": 10, "b": 2}, [])],
    ids=["nothing changed", "came right", "drifts otherwise", "drifts in another kind"],
)
async def test_what_no_lock_reaches_is_drift_if_it_is_found_twice_in_the_same_way(
    meanwhile: dict[str, int], found: list[str]
) -> None:
    numbers = Numbers({"a": 0, "b": 10, "c": 5}, meanwhile=[meanwhile])
    assert [drift.key for drift in await TWICE.run(numbers, repairs=Repairs.NONE)] == found
    assert numbers.said == ["page a b", "look a b", "look a b", "page c", "look c"]


async def test_a_page_is_looked_at_and_repaired_while_it_is_held_and_the_kinds_in_their_order() -> None:
    numbers = Numbers({"a": 10, "b": 0})
    await HELD.run(numbers, repairs=Repairs.ALL)
    assert numbers.said == ["page a b", "hold", "look a b", "correct b", "correct a", "let go", "after b a"]
    numbers.said.clear()
    assert await HELD.run(numbers, repairs=Repairs.ALL) == []
    assert numbers.said == ["page a b", "hold", "look a b", "let go"]


async def test_an_audit_has_each_kind_once_and_its_checks_find_right_what_those_before_repaired() -> None:
    audit: Audit[Numbers] = Audit((ONCE, TWICE))
    assert audit.kinds == (SMALL, LARGE, ODD)
    assert [drift.repaired for drift in await audit.run(Numbers({"a": 0}), repairs=Repairs.ALL)] == [True]
    assert [drift.key for drift in await audit.reconcile(Numbers({"a": 0, "b": 10}))] == ["a", "b", "b"]
