"""Guarantees, broken on purpose one at a time: after how many seeds do stories notice?

What a reconciler or an audit heals is no guarantee that a story could miss.

python -m tests.simulation.mutations [NAME...]    all, or some; MUTATION_SEEDS=N looks at so many seeds (200)
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import structlog
from msgspec.structs import replace
from tests.memory import roomy_memory
from tests.postgres_servers import PG_BIN
from tests.simulation.seeds import SeedFailed, prepare, run_seed

from roost.cli.roles import SCHEMAS
from roost.compute.rules import guests as guest_rules
from roost.compute.service import work as work_service
from roost.compute.store import work as work_store
from roost.conductor import finish, launches, moves
from roost.conductor.context import Lease
from roost.network.rules import bindings
from roost.network.service import builds as port_builds
from roost.placement.rules import claims
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres

SEEDS_MAX = int(os.environ.get("MUTATION_SEEDS", "200"))
SEED_TIMEOUT_S = 60.0


def nothing(*_arguments: Any, **_more: Any) -> None:
    """Check nothing."""


async def do_nothing(*_arguments: Any, **_more: Any) -> None:
    """Do nothing."""


def forgetting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do it, and believe that nothing remains."""

    async def forgetful(*arguments: Any, **more: Any) -> set[str]:
        await function(*arguments, **more)
        return set()

    return forgetful


def any_attempt(report: Any, guest: Any, **more: Any) -> Any:
    """Take reports on any attempt for reports on the one in force."""
    return REFUSE(report if guest is None else replace(report, attempt=guest.attempt), guest, **more)


def any_revision(bind: Any, port: Any, *arguments: Any) -> Any:
    """Bind a port whatever has changed since it was read."""
    return DECIDE_BIND(bind if port is None else replace(bind, revision=port.revision), port, *arguments)


def as_made(port: Any, *, restore: bool) -> Any:
    """Take every port for one that was made for its server."""
    return DECIDE_PARTING(replace(port, made_for=port.device_id), restore=restore)


def unmarked(change: Any, _marks: Any) -> Any:
    """Forget that a delete waits."""
    return change


async def all_held(_lease: Lease, builds: Sequence[Any]) -> list[Any]:
    """Believe in every lease."""
    return list(builds)


async def as_returned(_lease: Lease, builds: Sequence[Any]) -> list[Any]:
    """Take back no claim."""
    return list(builds)


REFUSE, DECIDE_BIND = guest_rules._refuse, bindings.decide_bind
DECIDE_PARTING = bindings.decide_parting
ANY_OWNER = work_store.LOCK_WORK.replace("lease_owner = $2", "$2::uuid IS NOT NULL")

MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a claim stays within capacity": lambda: patch.object(claims, "_check_capacity", nothing),
    "a claim names the consumer's generation": lambda: patch.object(claims, "_check_generation", nothing),
    "rows move on under their lease only": lambda: patch.object(work_store, "LOCK_WORK", ANY_OWNER),
    "what was read is used under the lease only": lambda: patch.object(Lease, "keep_held", all_held),
    "a waiting delete overtakes a build": lambda: patch.object(work_service, "_as_marked", unmarked),
    "claims outlive guests that are deleted": lambda: patch.object(
        finish, "withdraw_guests", forgetting(finish.withdraw_guests)
    ),
    "a launch that has begun is not retried elsewhere": lambda: patch.object(
        launches, "withdraw_unbegun_guests", forgetting(launches.withdraw_unbegun_guests)
    ),
    "claims outlive guests that have moved": lambda: patch.object(
        moves, "withdraw_elsewhere", forgetting(moves.withdraw_elsewhere)
    ),
    "a user's port outlives its server": lambda: patch.object(port_builds.bindings, "decide_parting", as_made),
    "reports are of the attempt in force": lambda: patch.object(guest_rules, "_refuse", any_attempt),
    "a port is bound as it was read": lambda: patch.object(port_builds.bindings, "decide_bind", any_revision),
    "a move that is taken back has its claim again": lambda: patch.object(moves, "_return_claims", as_returned),
    "a move that is over holds nothing": lambda: patch.object(moves, "_release_moves", do_nothing),
}


@contextmanager
def a_database() -> Iterator[str]:
    """A migrated database without fsync."""
    with TemporaryDirectory(prefix="roost-mutations-", dir=roomy_memory()) as name:
        Path(name).chmod(0o711)
        server = PrivatePostgres(Path(name), pg_bin=PG_BIN, settings={"fsync": "off"})
        server.start()
        try:
            upgrade(server.dsn, SCHEMAS)
            yield server.dsn
        finally:
            server.stop()


async def count_seeds(dsn: str, mutation: Callable[[], AbstractContextManager[Any]]) -> tuple[int, str]:
    """Return how many seeds it took to notice, and what was noticed; (0, "") if none did."""
    with mutation():
        for seed in range(1, SEEDS_MAX + 1):
            try:
                await asyncio.wait_for(run_seed(dsn, seed), SEED_TIMEOUT_S)
            except SeedFailed as error:
                return seed, next(line for line in str(error).splitlines() if line.startswith(f"seed {seed}:"))
            except TimeoutError:
                return seed, f"seed {seed}: it goes on for ever"
    return 0, ""


def main() -> None:
    """Break each, and say what came of it. Exit status 1 if one was not noticed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended like Ctrl-C: no PostgreSQL stays behind
    unnoticed = False
    with a_database() as dsn:
        asyncio.run(prepare(dsn))
        for name in sys.argv[1:] or MUTATIONS:
            count, why = asyncio.run(count_seeds(dsn, MUTATIONS[name]))
            unnoticed = unnoticed or not count
            sys.stdout.write(f"{count or f'not in {SEEDS_MAX}':>12}  {name}: {why[:200]}\n")
            sys.stdout.flush()
    sys.exit(unnoticed)


if __name__ == "__main__":
    main()
