"""What a measured stretch costs: CPU time and memory of the servers' process trees, from /proc, and of the client."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import costs

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(root: int) -> float:
    """Seconds of CPU that the tree has used, ended children included."""
    return sum(map(costs.cpu_s, costs.family_of(root, "")))


def resident_mib(root: int, *, peak: bool = False) -> list[float]:
    """Resident memory of each process below the root, the root itself not counted, largest first."""
    key, sizes = "VmHWM:" if peak else "VmRSS:", []
    for pid in costs.family_of(root, "").keys() - {root}:
        for line in _read(f"/proc/{pid}/status").splitlines():
            if line.startswith(key):
                sizes.append(int(line.split()[1]) / 1024)
    return sorted(sizes, reverse=True)


def machine_cpu_s() -> float:
    """Seconds that all cores together have been busy, stolen time included."""
    ticks = [int(word) for word in _read("/proc/stat").splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS_PER_S


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""


@dataclass
class Meter:
    """Wraps one measured stretch. roots: of the trees to account for, by name ("web", "db").

    After it: seconds; cpu_s by name; client_cpu_s, of this process; other_cpus, how many cores were busy on average
    with none of these: how noisy the machine was.
    """

    roots: Mapping[str, int]
    seconds: float = 0.0
    client_cpu_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    other_cpus: float = 0.0

    def __enter__(self) -> "Meter":
        self._machine = machine_cpu_s()
        self._before = {name: cpu_s(root) for name, root in self.roots.items()}
        self._client = time.process_time()
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self.seconds = time.perf_counter() - self.started
        self.client_cpu_s = time.process_time() - self._client
        self.cpu_s = {name: cpu_s(root) - self._before[name] for name, root in self.roots.items()}
        known = self.client_cpu_s + sum(self.cpu_s.values())
        self.other_cpus = (machine_cpu_s() - self._machine - known) / self.seconds

    def cpu_ms(self, count: int) -> dict[str, float]:
        """Milliseconds of CPU for each of `count` things, by tree."""
        return {name: 1000 * seconds / max(count, 1) for name, seconds in self.cpu_s.items()}
