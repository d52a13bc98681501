"""What can happen in a story, and how often: the seed draws from here."""

import asyncio
from collections.abc import Mapping
from unittest.mock import patch

from tests.simulation import looks, mishaps, pools, rest, restores, users
from tests.simulation.effects import calls_planned
from tests.simulation.mishaps import Step
from tests.simulation.story import Story

from roost.agent import old_agents
from roost.compute.service import actions

STEPS = 40
WEIGHTS: Mapping[Step, float] = {
    users.boot: 8, users.make_port: 3, users.change_port: 2, users.delete_port: 1, users.delete: 4, users.power: 6,
    users.rebuild: 1, users.move: 9, users.end_move: 3, users.abort: 1.5, users.attach: 1.5, users.detach: 1.5,
    users.evacuate: 1, users.lock: 1, users.reset: 0.5, mishaps.conduct: 16, mishaps.misconduct: 8,
    mishaps.overtaken: 7, mishaps.interrupted: 4, mishaps.doubted: 2, mishaps.outcut: 2, mishaps.wake: 3,
    mishaps.host_turn: 16,
    mishaps.all_hosts: 8, mishaps.send_late: 3, mishaps.cut_off: 1, mishaps.lose_power: 1, mishaps.disaster: 1,
    mishaps.outrun: 1, mishaps.unheard_launches: 1, mishaps.recabled: 2, mishaps.doubted_host: 0.5,
    mishaps.cut_one_way: 1, mishaps.cable_some: 1, mishaps.reinstalled: 1, mishaps.restart_agent: 1,
    mishaps.come_back: 3, mishaps.let_time_pass: 7, mishaps.skew: 1, mishaps.look_for_silent: 1,
    mishaps.reconcile: 3, mishaps.part: 1, mishaps.upgrade: 1, mishaps.by_itself: 2,
    pools.change_pools: 5, pools.change_second: 2, pools.use_outside: 0.5, restores.go_back: 6,
    restores.copy_agent: 0.5,
}  # fmt: skip


async def tell(story: Story, steps: int = STEPS) -> None:
    """Go through the story, then let everything rest, and look at what is left."""
    with calls_planned(), patch.object(actions, "SETTLE_WAIT_S", 0), patch.object(old_agents, "PAUSE_FIRST_S", 0):
        try:
            for step in (users.boot, users.boot, mishaps.conduct, mishaps.all_hosts, mishaps.conduct):
                await step(story)
            for _ in range(steps):
                (step,) = story.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
                await step(story)
                await looks.look_at_guests(story)
                await pools.check_capacity(story)
            await rest.come_to_rest(story)
            await rest.check(story)
        finally:
            for _, task in story.sleepers:
                task.cancel()
            await asyncio.gather(*(task for _, task in story.sleepers), return_exceptions=True)
