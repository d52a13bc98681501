"""The processes of a `roost serve`, as the kernel knows them."""

import contextlib
from pathlib import Path

from roost.cli.serving import fork_server

FORK_SERVER = fork_server.FORK_SERVER.decode()


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


def name_of(pid: int) -> str:
    """What `ps -o comm` shows of a process, empty without one."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def fork_servers(supervisor: int) -> list[int]:
    """The process that the others are forks of; none for a moment when it was killed."""
    children = children_of(supervisor)
    return [pid for pid in children if name_of(pid) == FORK_SERVER or "roost.cli.serving.process" in words_of(pid)]


def names_of(supervisor: int) -> dict[int, str]:
    """Process id -> name, such as `api-1`, of all that serve and work."""
    return {pid: name for server in fork_servers(supervisor) for pid in children_of(server) if (name := name_of(pid))}
