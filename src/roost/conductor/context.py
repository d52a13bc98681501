"""What a conductor works with, and what its stages hand to each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from roost.compute.model.work import LOCAL_CREDENTIALS, BuildOrder, Credentials, Failure, Stage, StageChange, Work
from roost.compute.service import Compute
from roost.compute.service.work import change_stages, list_held
from roost.conductor.settings import ConductorSettings
from roost.platform.env import Env
from roost.platform.wakeup import Wakeups
from roost.scheduling.settings import SchedulingSettings
from roost.seams.network import BuildClient, EnsuredPorts, MoveClient, Port, PortsRefused, ServerNics
from roost.seams.placement import ClaimClient

PROGRESS = ("attempt", "failures", "excluded_hosts", "placed", "failure")
"""What a change of stage keeps of the work, unless it says otherwise."""


@dataclass
class Conductor:
    """One conductor: its neighbours, its settings, its clock and chance.

    credentials: as they were found last. last_project: whose work had its turn last.
    batches_running: but for light ones. old_agents: None where no agent makes or binds ports itself.
    """

    compute: Compute
    placement: ClaimClient
    network: BuildClient
    moves: MoveClient
    env: Env
    wakeups: Wakeups
    settings: ConductorSettings = field(default_factory=ConductorSettings)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    credentials: Callable[[], Credentials] = lambda: LOCAL_CREDENTIALS
    last_project: str = ""
    batches_running: int = 0
    old_agents: "OldAgents | None" = None


@dataclass(frozen=True)
class Build:
    """A leased server on its way; ports: known once create_ports has seen them in this lease."""

    work: Work
    ports: tuple[Port, ...] | None = None

    @property
    def nics(self) -> ServerNics:
        """Return the server's NICs as the network service wants them."""
        return ServerNics(server_id=self.work.server_id, project_id=self.work.project_id, nics=self.work.spec.nics)


@dataclass(frozen=True)
class Advanced:
    """What came of a batch. going_on: still held, for the next stage; lost: server ids that another conductor has now.

    A server whose work is done, or that waits for an agent, is in neither.
    """

    going_on: list[Build]
    lost: frozenset[str]


@dataclass(frozen=True)
class Lease:
    """The conductor's hold on one batch: `owner` is of this batch alone, so a lease that was lost is seen to be."""

    conductor: Conductor
    owner: str

    async def keep_held(self, builds: Sequence[Build]) -> list[Build]:
        """Return those whose lease has not run out: what was read of them before this call was read under it."""
        server_ids = [build.work.server_id for build in builds]
        ids_held = await list_held(self.conductor.compute, server_ids, owner=self.owner)
        return [build for build in builds if build.work.server_id in ids_held]

    async def advance(
        self,
        builds: Sequence[Build],
        changes: Sequence[StageChange],
        *,
        ports: Mapping[str, tuple[Port, ...]] | None = None,
    ) -> Advanced:
        """Write where the servers stand now, in one transaction. ports: what is now known of them, by server id."""
        settings = self.conductor.settings
        changes_made = (
            await change_stages(self.conductor.compute, changes, owner=self.owner, lease_s=settings.lease_s)
            if changes
            else {}
        )
        builds_by_id = {build.work.server_id: build for build in builds}
        going_on = []
        for change in changes:
            change_made = changes_made.get(change.server_id)
            if change_made is None or change_made.stage is None or not change_made.keep:
                continue
            build = builds_by_id[change.server_id]
            progress = {name: getattr(change_made, name) for name in PROGRESS}
            move = change_made.move or build.work.move
            work = msgspec.structs.replace(build.work, stage=change_made.stage, move=move, **progress)
            going_on.append(Build(work, (ports or {}).get(change.server_id, build.ports)))
        return Advanced(going_on, lost=frozenset(change.server_id for change in changes) - changes_made.keys())


class OldAgents(Protocol):
    """What is otherwise where agents may have to make or bind ports themselves; `old_agents.py`."""

    async def choose_orders(self, lease: Lease, builds: Sequence[Build]) -> dict[str, BuildOrder]:
        """Return the order of each server whose build begins, by its id."""

    async def tell_order(self, conductor: Conductor, credentials: Credentials) -> None:
        """Show in which order a build would begin now."""

    async def plan_ports(self, lease: Lease, builds: Sequence[Build]) -> list[EnsuredPorts | PortsRefused]:
        """Return the ports of servers whose agents make them, in order; makes and reserves none."""

    async def ask(self, lease: Lease, builds: Sequence[Build]) -> list[Build]:
        """Send servers to hosts whose agents make or bind their ports."""


def given_up(work: Work, message: str, *, host: str | None = None) -> StageChange:
    """Return the change of `work` to its end, since nothing more can be tried, for that reason."""
    return staged(work, end_of(work), failure=Failure(message=message, host=host), keep=True)


def sent_elsewhere(work: Work, message: str, *, host: str) -> StageChange:
    """Return the change after an attempt that failed on that host, for that reason: another host is to be chosen."""
    return staged(
        work,
        Stage.RETRY,
        failures=work.failures + 1,
        excluded_hosts=(*work.excluded_hosts, host),
        failure=Failure(message=message, host=host),
        keep=True,
    )


def end_of(work: Work) -> Stage:
    """Return where a server goes of which nothing more can be tried: a build ends, a move is taken back."""
    return Stage.FAIL if work.move is None else Stage.RESTORE


def staged(work: Work, stage: Stage | None, **changes: object) -> StageChange:
    """Return the change of `work` to `stage`; all that is not named stays as it is."""
    progress = {name: getattr(work, name) for name in PROGRESS}
    return StageChange(server_id=work.server_id, stage=stage, **progress | changes)
