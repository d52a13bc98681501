"""Who an agent is: the id and the secret that are kept with its guests, and a boot id of this process.

A state directory that is started for other hosts would leave its guests without an agent: it is refused here.
"""

import os
import socket
import uuid
from collections.abc import Collection

import structlog
from msgspec.structs import replace

from roost.agent.drivers import Driver
from roost.platform.errors import RoostError, reason_of
from roost.seams.agent import AgentIdentity, HostReport

HOSTS_NAMED_MAX = 3

log = structlog.get_logger()


class GuestsElsewhere(RoostError):
    """The agent's state holds guests of hosts that it is not to serve."""


def make_identity(driver: Driver, *, service_version: int, fence_after_s: float | None) -> AgentIdentity:
    """Return the identity of this start, which every call of it carries."""
    return AgentIdentity(
        id=driver.instance_id,
        label=f"process {os.getpid()} on {socket.gethostname()}",
        service_version=service_version,
        fence_after_s=fence_after_s,
        boot_id=str(uuid.uuid4()),
        secret=driver.secret,
        mark=driver.read_mark(),
        described=driver.needs_descriptions,
        keeps_disks=driver.keeps_disks,
    )


def keep_mark(driver: Driver, agent: AgentIdentity, mark: str) -> AgentIdentity:
    """Return the agent with the mark that the API told last, which is kept; "" changes nothing.

    A later one than the API's records have proves that they went back. One that cannot be written is logged.
    """
    if not mark or mark == agent.mark:
        return agent
    try:
        driver.keep_mark(mark)
    except OSError as error:  # an earlier one proves less, and nothing that is wrong
        log.error("the API's mark is not written", error=reason_of(error))
    return replace(agent, mark=mark)


def check_guests(driver: Driver, hosts: Collection[str]) -> None:
    """Raise GuestsElsewhere when the driver has guests of other hosts than these."""
    others = sorted({host for _, host in driver.guests_by_key()} - set(hosts))
    if others:
        more = f" and {len(others) - HOSTS_NAMED_MAX} more" if len(others) > HOSTS_NAMED_MAX else ""
        raise GuestsElsewhere(
            f"this agent's state has guests of {', '.join(others[:HOSTS_NAMED_MAX])}{more}, which it is not to serve: "
            "name the old host too, move its servers, then drop it"
        )


def fleet(count: int, *, like: HostReport) -> list[HostReport]:
    """Return `count` hosts named fleet-0001 and on, each with what `like` has."""
    return [replace(like, name=f"fleet-{number:04d}") for number in range(1, count + 1)]
