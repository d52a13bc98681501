"""The processes of a `roost serve`, as the kernel knows them."""

import contextlib
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that this one started."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def words_of(pid: int) -> list[str]:
    """The command line of a process, empty without one."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def fork_servers(supervisor: int) -> list[int]:
    """The process that the others are forks of; none for a moment when it was killed."""
    return [pid for pid in children_of(supervisor) if "roost.cli.serving.process" in words_of(pid)]


def names_of(supervisor: int) -> dict[int, str]:
    """Process id -> name, such as `api-1`, of all that serve and work."""
    names = {}
    for pid in (pid for server in fork_servers(supervisor) for pid in children_of(server)):
        with contextlib.suppress(OSError):
            names[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
    return names
