"""What the figures were measured on: without it they say nothing."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.costs import Stretch
from benchmarks.disk import disk_of

SETTINGS = """-- benchmarks.get_server
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('data_directory')
"""


@dataclass(frozen=True)
class Server:
    """The PostgreSQL that a row ran on, as it says itself. disk: what its data lies on."""

    version: str
    fsync: str
    synchronous_commit: str
    disk: str

    def __str__(self) -> str:
        """As one reads it under a table."""
        settings = f"fsync {self.fsync}, synchronous_commit {self.synchronous_commit}"
        return f"PostgreSQL {self.version}, {settings}, data on {self.disk}"


@dataclass(frozen=True)
class Measured:
    """A row's figure of each round, in its unit; what the measured stretches cost, if it was asked; and on what."""

    figures: Sequence[float]
    stretches: Sequence[Stretch]
    server: Server

    @classmethod
    def of(cls, rounds: Sequence["Measured"]) -> "Measured":
        """Return several rounds as one."""
        figures = [figure for each in rounds for figure in each.figures]
        return cls(figures, [stretch for each in rounds for stretch in each.stretches], rounds[-1].server)


@dataclass(frozen=True)
class Machine:
    """Where the program runs. load: what else ran in the minute before; above a few tenths the figures are too low."""

    cores: int
    cpu: str
    memory_gib: float
    python: str
    load: float

    def __str__(self) -> str:
        """As one reads it under a table."""
        return (
            f"{self.cores} cores ({self.cpu}), {self.memory_gib:.1f} GiB, Python {self.python};"
            f" load before: {self.load:.2f}"
        )


async def get_server(connection: Any) -> Server:
    """Ask the PostgreSQL itself, for its settings may be others than we think."""
    *settings, data_directory = await connection.fetchrow(SETTINGS)
    return Server(*settings, str(disk_of(Path(data_directory))))


def this_machine() -> Machine:
    """The machine that this runs on."""
    models = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=models[0].partition(":")[2].strip() if models else platform.machine(),
        memory_gib=round(memory / 2**30, 1),
        python=platform.python_version(),
        load=os.getloadavg()[0],
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
