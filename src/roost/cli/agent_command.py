"""What `roost agent` puts together: a driver, its token, the network service, and the agent that works with them."""

import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from roost.agent.agent import run as run_agent
from roost.agent.drivers.fake import FakeDriver, Faults
from roost.agent.drivers.state import StateInUse
from roost.agent.token import TokenSource
from roost.cli.endings import fail, run
from roost.cli.network_access import network_api
from roost.clients.network_api import NetworkApi
from roost.clients.old_agents import AgentNetworkApi
from roost.platform.errors import BadRequest, RoostError, reason_of
from roost.seams.agent import HostReport

NETWORK_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What the command line says. hosts: None for every declared one. faults: raises BadRequest.

    fence_after_s: None to promise nothing. waits: for another agent's lease to end. resumes: what ran when the
    host was started anew.
    """

    api: str
    hosts: Sequence[HostReport] | None
    state: Path
    token_file: Path | None
    service_version: int
    network_url: str
    network_token_file: Path | None
    tls: ssl.SSLContext | None
    faults: Callable[[], Faults]
    fence_after_s: float | None
    waits: bool
    resumes: bool


def run_agent_command(options: AgentOptions) -> None:
    """Run the agent until it is stopped. Raises typer.BadParameter; ends the command where it cannot work."""
    try:
        network = network_api(
            options.network_url,
            options.network_token_file,
            os.environ,
            timeout_s=NETWORK_TIMEOUT_S,
            tls=options.tls,
        )
        token = TokenSource(options.token_file, os.environ)
        driver = FakeDriver(options.state, options.faults())
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from error
    except RoostError as error:
        fail(error)
    except (StateInUse, OSError) as error:
        fail(RoostError(f"--state {options.state}: {reason_of(error)}"))
    run(_work(options, network, token, driver))


async def _work(options: AgentOptions, network: NetworkApi, token: TokenSource, driver: FakeDriver) -> None:
    try:
        await run_agent(
            api_url=options.api,
            hosts=options.hosts,
            driver=driver,
            token=token,
            tls=options.tls,
            network=AgentNetworkApi(network),
            service_version=options.service_version,
            fence_after_s=options.fence_after_s,
            waits=options.waits,
            resumes=options.resumes,
        )
    finally:
        await network.close()
