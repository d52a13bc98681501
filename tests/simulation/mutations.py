"""Guarantees, broken on purpose one at a time: after how many seeds do stories notice?

What a reconciler or an audit heals is no guarantee that a story could miss.

python -m tests.simulation.mutations [NAME...]    all, or some; MUTATION_SEEDS=N looks at so many seeds (200)
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import structlog
import uvloop
from msgspec.structs import replace
from tests.memory import roomy_memory
from tests.postgres_servers import PG_BIN
from tests.simulation.seeds import SeedFailed, open_stage, run_seed

from roost.cli.serving.roles import SCHEMAS
from roost.clients.local import method
from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.compute.model.work import Launch, MoveKind, Stage
from roost.compute.rules import actions as action_rules
from roost.compute.rules import agents as agent_rules
from roost.compute.rules import guests as guest_rules
from roost.compute.rules import marks as mark_rules
from roost.compute.rules import own_states
from roost.compute.rules import unknown_guests as unknown_rules
from roost.compute.service import moves as move_service
from roost.compute.service import work as work_service
from roost.compute.store import guests as guest_store
from roost.compute.store import moves as move_store
from roost.compute.store import recovery as recovery_store
from roost.compute.store import work as work_store
from roost.conductor import finish, launches, moves, pipeline, place
from roost.conductor.context import Build, Lease, staged
from roost.network.model.ports import PortChanges, PortFilter
from roost.network.rules import capacity as capacity_rules
from roost.network.rules import port_bindings, readdressing
from roost.network.service import Networks, releases
from roost.network.service import builds as port_builds
from roost.network.service import capacity as capacity_service
from roost.network.service import moves as port_moves
from roost.network.service.ports import list_ports, update_port
from roost.network.store import addresses as address_store
from roost.network.store import claims as claim_store
from roost.network.store import notices as notice_store
from roost.placement.rules import claims
from roost.placement.service import claims as claim_service
from roost.platform.migrate import upgrade
from roost.platform.postgres import PrivatePostgres
from roost.seams.network import Nic
from roost.seams.placement import Candidates, Claimed, ClaimGroup, Refused

SEEDS_MAX = int(os.environ.get("MUTATION_SEEDS", "200"))


def nothing(*_arguments: Any, **_more: Any) -> None:
    """Check nothing."""


async def find_nothing(_placement: Any, queries: Sequence[Any]) -> list[Candidates]:
    """Find no candidate, whatever there is."""
    return [Candidates((), {}) for _ in queries]


async def do_nothing(*_arguments: Any, **_more: Any) -> None:
    """Do nothing."""


def forgetting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do it, and believe that nothing remains."""

    @wraps(function)
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


def keeping_former(*arguments: Any, **more: Any) -> Any:
    """Leave to a former agent what it had."""
    return replace(DECIDE_LIST(*arguments, **more), disowned=frozenset(), gone=frozenset())


def choose_none(_guests: Any) -> unknown_rules.Chosen:
    """Have no unknown guest hold anything."""
    return unknown_rules.Chosen()


async def find_no_fault(*_arguments: Any) -> dict[str, str]:
    """End no fault."""
    return {}


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


async def unstopped(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Bind the ports to the destination while the guest on the source runs."""
    changes = [staged(build.work, Stage.BIND, keep=True) for build in builds]
    return (await lease.advance(builds, changes)).going_on


async def one_by_one(placement: LocalPlacement, groups: Sequence[ClaimGroup]) -> list[Claimed | Refused]:
    """Claim for the consumers of a group one after another; those before a refused one keep what they got."""
    answers: list[Claimed | Refused] = []
    for group in groups:
        generations: dict[str, int] = {}
        answer: Claimed | Refused = Claimed({})
        for consumer in group.consumers:
            (answer,) = await CLAIM(placement, [ClaimGroup((consumer,))])
            if isinstance(answer, Refused):
                break
            generations |= answer.generations
        answers.append(answer if isinstance(answer, Refused) else Claimed(generations))
    return answers


async def unassigning(networks: Networks, server_ids: Sequence[str]) -> None:
    """Take the addresses off ports as well, and give their claims back."""
    await UNBIND(networks, server_ids)
    for port in await list_ports(networks, PortFilter(device_ids=tuple(server_ids))):
        await update_port(networks, port.id, PortChanges(fixed_ips=()))


def counting_without(**left_out: int) -> Callable[[], AbstractContextManager[Any]]:
    """Count capacity without one of its parts."""
    return lambda: patch.object(
        capacity_rules, "count_capacity", lambda **counts: COUNT_CAPACITY(**{**counts, **left_out})
    )


async def none_due(*_arguments: Any) -> set[str]:
    """Have the ledger told of all."""
    return set()


def another_each_time(nic: Nic, _server_id: str) -> str:
    """Make a new port at each try."""
    return nic.port_id or str(uuid4())


REFUSE, DECIDE_BIND = guest_rules.find_report_refusal, port_bindings.decide_bind
NOTHING = own_states.OwnState.NOTHING
JUDGE = launches.judge_launch
DECIDE_LIST = guest_rules.decide_guest_list


def unbegun(launch: Launch | None, **more: Any) -> Any:
    """Judge a launch as one that no host has begun."""
    return JUDGE(launch and replace(launch, begun_s=None), **more)


@contextmanager
def retried_anyway() -> Iterator[None]:
    """A late launch is another host's, whether the one that was asked has begun it or not."""
    with (
        patch.object(launches, "judge_launch", unbegun),
        patch.object(launches, "withdraw_unbegun_guests", forgetting(launches.withdraw_unbegun_guests)),
    ):
        yield


@contextmanager
def acting_on_any_records() -> Iterator[None]:
    """Lease work and give orders whatever the records have been through."""
    with (
        patch.object(work_store, "LEASE_WORK", work_store.LEASE_WORK.replace(recovery_store.FOLLOWS, "true")),
        patch.object(guest_store, "PENDING_HOSTS", guest_store.PENDING_HOSTS.replace(recovery_store.FOLLOWS, "true")),
        patch.object(guest_store, "ORDERS", guest_store.ORDERS.replace(recovery_store.FOLLOWS, "true")),
    ):
        yield


@contextmanager
def silence_fences() -> Iterator[None]:
    """Silence is the word that a host runs nothing, for the look and for the fence."""
    with (
        patch.object(move_store, "FENCE_GUESTS", FENCED_BY_SILENCE),
        patch.object(action_rules, "find_fence_refusal", nothing),
    ):
        yield


DECIDE_PARTING, CLAIM, UNBIND = port_bindings.decide_parting, LocalPlacement.claim, port_moves.unbind_ports
ANY_OWNER = work_store.LOCK_WORK.replace("lease_owner = $2", "$2::uuid IS NOT NULL")
FENCED_STAYING = move_store.FENCE_GUESTS.replace("desired = 'absent', ", "")
FENCED_ANYWAY = move_store.FENCE_GUESTS.replace("host.forced_down OR", "true OR")
FENCED_BY_SILENCE = move_store.FENCE_GUESTS.replace("host.forced_down OR", "host.silent OR host.forced_down OR")
CONFIRMED_BY_SILENCE = move_store.WITHDRAW_ELSEWHERE.replace(
    "h.silent AND g.desired = g.reported AND g.desired IN ('stopped', 'suspended', 'incoming')", "h.silent"
)
COUNT_CAPACITY, STATE_OF = capacity_rules.count_capacity, capacity_service._state
CLAIM_MOVED = address_store.MARK_ANEW.replace("w.claimed_wanted", "w.claimed_wanted AND w.in_pool_wanted")
FREED = address_store.GIVE_UP.replace("WHERE p.device_owner", "WHERE false AND p.device_owner")
QUIET_ONLY = replace(action_rules.EVACUATE, task_states=action_rules.QUIET)
WITHOUT_STOP = tuple((stage, unstopped if stage is Stage.STOP else carry) for stage, carry in pipeline.STAGES)

MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a claim stays within capacity": lambda: patch.object(claims, "_check_capacity", nothing),
    "a server gets a host where there is room": lambda: patch.object(LocalPlacement, "candidates", find_nothing),
    "a claim names the consumer's generation": lambda: patch.object(claims, "_check_generation", nothing),
    "rows move on under their lease only": lambda: patch.object(work_store, "LOCK_WORK", ANY_OWNER),
    "what was read is used under the lease only": lambda: patch.object(Lease, "keep_held", all_held),
    "a waiting delete overtakes a build": lambda: patch.object(work_service, "_as_marked", unmarked),
    "claims outlive guests that are deleted": lambda: patch.object(
        finish, "withdraw_guests", forgetting(finish.withdraw_guests)
    ),
    "a launch that has begun is waited for": retried_anyway,
    "a launch that begins meanwhile is not retried elsewhere": lambda: patch.object(
        launches, "withdraw_unbegun_guests", forgetting(launches.withdraw_unbegun_guests)
    ),
    "claims outlive guests that have moved": lambda: patch.object(
        moves, "withdraw_elsewhere", forgetting(moves.withdraw_elsewhere)
    ),
    "a user's port outlives its server": lambda: patch.object(port_builds.port_bindings, "decide_parting", as_made),
    "reports are of the attempt in force": lambda: patch.object(guest_rules, "find_report_refusal", any_attempt),
    "a guest that ended has its server stopped": lambda: patch.object(own_states, "judge", lambda *_, **__: NOTHING),
    "a port is bound as it was read": lambda: patch.object(port_builds.port_bindings, "decide_bind", any_revision),
    "a move that is taken back has its claim again": lambda: patch.object(moves, "_return_claims", as_returned),
    "a move that is over holds nothing": lambda: patch.object(moves, "_release_moves", do_nothing),
    "a move holds what its server had on the source": lambda: patch.object(place, "held_by_move", lambda *_: {}),
    "a server and its addresses are claimed in one write": lambda: patch.object(LocalPlacement, "claim", one_by_one),
    "a guest that is fenced is to go": lambda: patch.object(move_store, "FENCE_GUESTS", FENCED_STAYING),
    "guests are fenced while their host is down": lambda: patch.object(move_store, "FENCE_GUESTS", FENCED_ANYWAY),
    "silence fences nobody": silence_fences,
    "a move gives back only the addresses that it got": lambda: patch.object(
        port_bindings, "list_addresses_since", lambda port, _before: list(port.addresses)
    ),
    "a silent host's guests need no word with their NICs down only": lambda: patch.object(
        move_store, "WITHDRAW_ELSEWHERE", CONFIRMED_BY_SILENCE
    ),
    "what a former agent had is nobody's": lambda: patch.object(guest_rules, "decide_guest_list", keeping_former),
    "a fault that Roost only believed ends": lambda: patch.object(guest_store, "restore_servers", find_no_fault),
    "records that went back wait for the hosts": acting_on_any_records,
    "a mark shows that the records went back": lambda: patch.object(mark_rules, "find_later", nothing),
    "unknown guests hold their addresses": lambda: patch.object(unknown_rules, "choose_holding", choose_none),
    "what a server's port gives up is its guest's for a while": lambda: patch.object(
        readdressing, "list_leaving", lambda *_: ()
    ),
    "what others give up is an unknown guest's at once": lambda: patch.object(address_store, "GIVE_UP", FREED),
    "an older start of an agent is not served": lambda: patch.object(agent_rules, "_refuse_clash", nothing),
    "an evacuation looks at the host alone": lambda: patch.dict(move_service.MOVES, {MoveKind.EVACUATE: QUIET_ONLY}),
    "the source's NICs are down before ports move": lambda: patch.object(pipeline, "STAGES", WITHOUT_STOP),
    "bindings go with the move that made them": lambda: patch.object(moves, "_drop_bindings", do_nothing),
    "a server with a disk is shelved on its host": lambda: patch.object(action_rules, "find_rule_in_place", nothing),
    "a shelved server keeps its addresses": lambda: patch.object(LocalNetwork, "unbind_ports", method(unassigning)),
    "compute hears of ports that changed": lambda: patch.object(notice_store, "insert_notices", do_nothing),
    "a cut leaves what is promised": lambda: patch.object(claim_service, "fits", lambda *_: True),
    "what a cut is to give counts later": lambda: patch.object(
        capacity_service, "_state", lambda uuid, source, _coming: STATE_OF(uuid, source, {})
    ),
    "what is claimed outside the pools counts": counting_without(claimed_outside=0),
    "what is held unclaimed in the pools is reserved": counting_without(unclaimed_inside=0),
    "no change of pools moves a claim": lambda: patch.object(address_store, "MARK_ANEW", CLAIM_MOVED),
    "the ledger is told before a claim outside the pools goes": lambda: patch.object(
        releases, "publications", SimpleNamespace(list_due=none_due)
    ),
    "an intent comes before a claim": lambda: patch.object(claim_store, "insert_intents", do_nothing),
    "a port's id is its server's at each try": lambda: patch.object(Nic, "port_id_of", another_each_time),
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
    async with open_stage(dsn) as stage:
        for seed in range(1, SEEDS_MAX + 1):
            try:
                with mutation():
                    await run_seed(stage, seed)
            except SeedFailed as error:
                return seed, next(line for line in str(error).splitlines() if line.startswith(f"seed {seed}:"))
    return 0, ""


def main() -> None:
    """Break each, and say what came of it. Exit status 1 if one was not noticed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended like Ctrl-C: no PostgreSQL stays behind
    unnoticed = False
    with a_database() as dsn:
        for name in sys.argv[1:] or MUTATIONS:
            count, why = uvloop.run(count_seeds(dsn, MUTATIONS[name]))
            unnoticed = unnoticed or not count
            sys.stdout.write(f"{count or f'not in {SEEDS_MAX}':>12}  {name}: {why[:200]}\n")
            sys.stdout.flush()
    sys.exit(unnoticed)


if __name__ == "__main__":
    main()
