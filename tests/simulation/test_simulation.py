"""Stories that seeds draw: conductors, services, agents and hosts on one thread, and everything that can go wrong.

SIMULATION_SEED=N tells one story again, SIMULATION_SEEDS=N so many (`python -m pytest -n 0 tests/simulation`).
"""

import os
import time

import pytest
from tests.simulation.seeds import prepare, run_seed

FIRST_SEED = 1
SEEDS = int(os.environ.get("SIMULATION_SEEDS", "100"))
FOUND_SOMETHING: tuple[int, ...] = ()
"""Seeds that found a bug stay."""


async def test_stories_end_well(dsn: str) -> None:
    await prepare(dsn)
    only = os.environ.get("SIMULATION_SEED")
    seeds = [int(only)] if only else [*FOUND_SOMETHING, *range(FIRST_SEED, FIRST_SEED + SEEDS)]
    began_s = time.process_time()
    for seed in seeds:
        told = await run_seed(dsn, seed)
        if only:
            print("\n".join(told))  # noqa: T201
    print(f"{(time.process_time() - began_s) / len(seeds):.2f} s of CPU for each of {len(seeds)} seeds")  # noqa: T201


@pytest.mark.parametrize("seed", [7, 8])
async def test_the_same_seed_is_the_same_story(dsn: str, seed: int) -> None:
    await prepare(dsn)
    first, second = await run_seed(dsn, seed), await run_seed(dsn, seed)
    assert first == second
