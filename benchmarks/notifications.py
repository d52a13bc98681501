"""What notifications cost boots: off, to a file, and with each change of a server's state besides.

`python -m benchmarks.notifications` boots the same servers in a new Roost for each, round by round in turn, and prints
the medians: servers/s from the first POST to all ACTIVE, and the conductor's CPU for each boot, delivery included.
"""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

import typer

from benchmarks.boot import boot_until_active, world_of
from benchmarks.processes import prepared
from benchmarks.rows import Kind, Row

STATES = {"off": None, "to a file": "", "with all states": "vm_and_task_state"}
"""What is told -> notify_on_state_change; None where nobody is told of anything."""
FILE, STATE = "ROOST_NOTIFICATIONS_LOG_FILE", "ROOST_NOTIFICATIONS_NOTIFY_ON_STATE_CHANGE"


async def measure(row: Row, data_dir: Path, file: Path, states: str | None) -> tuple[float, float]:
    """Return servers/s and the conductor's milliseconds of CPU for each boot."""
    for name in (FILE, STATE):
        os.environ.pop(name, None)
    if states is not None:
        os.environ |= {FILE: str(file), STATE: states}
    async with world_of(row, data_dir) as world:
        await boot_until_active(world, row, row.held, held=0)
        async with world.meter.stretch(row.amount, "server") as stretch:
            await boot_until_active(world, row, row.amount, held=row.held)
        world.roost.assert_records_agree()
    return row.amount / stretch.seconds, stretch.cpu["conductor"]


def main(rounds: int = 3, amount: int = 200, held: int = 20, hosts: int = 60, segments: int = 3) -> None:
    """Measure all three, round by round in turn, and print the medians."""
    row = Row(
        name="notifications", kind=Kind.BOOT, hosts=hosts, segments=segments, amount=amount, held=held, batch=10,
        unit="servers/s",
    )  # fmt: skip
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in STATES}
    with prepared() as data_dir, tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, known in figures.items():
                known.append(asyncio.run(measure(row, data_dir, Path(folder, f"{number}-{name}.log"), STATES[name])))
        lines = [len(Path(folder, f"0-{name}.log").read_bytes().splitlines()) for name in list(STATES)[1:]]
    print("| notifications | servers/s | conductor's CPU for each boot, ms | of each round |\n|---|---|---|---|")
    for name, known in figures.items():
        medians = [statistics.median(one[number] for one in known) for number in (0, 1)]
        rates = ", ".join(f"{rate:.0f}" for rate, _ in known)
        print(f"| {name} | {medians[0]:.0f} | {medians[1]:.1f} | {rates} |")
    print(f"Lines of the file for each server: {', '.join(f'{count / (amount + held):.1f}' for count in lines)}.")


if __name__ == "__main__":
    typer.run(main)
