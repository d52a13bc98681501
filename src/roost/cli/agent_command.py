"""What `roost agent` puts together: a driver, its token, the network service, and the agent that works with them."""

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from msgspec.structs import replace

from roost.agent.agent import run as run_agent
from roost.agent.drivers import Driver
from roost.agent.drivers.fake import FakeDriver, Faults
from roost.agent.drivers.state import StateInUse
from roost.agent.token import TokenSource
from roost.cli.agent_options import check_driver
from roost.cli.asking.commands import check_api
from roost.cli.endings import fail, run
from roost.cli.fake_options import read_faults
from roost.cli.network_access import network_api
from roost.cli.qemu_options import QEMU_OPTIONS, read_host, read_machine
from roost.cli.serving.option_checks import misused, read_agent_hosts
from roost.cli.serving.tls_options import client_tls
from roost.clients.network_api import NetworkApi
from roost.clients.old_agents import AgentNetworkApi
from roost.platform.errors import BadRequest, RoostError, reason_of
from roost.seams.agent import SERVICE_VERSION, HostReport

if TYPE_CHECKING:
    from roost.agent.drivers.qemu.check import HostAsked

NETWORK_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What the command line says. hosts: None for every declared one.

    driver: what the fake one does wrong, or what this machine is to guests. fence_after_s: None to promise nothing.
    waits: for another agent's lease to end. resumes: what ran when the host was started anew.
    """

    api: str
    hosts: Sequence[HostReport] | None
    state: Path
    token_file: Path | None
    service_version: int
    network_url: str
    network_token_file: Path | None
    tls: ssl.SSLContext | None
    driver: "Faults | HostAsked"
    fence_after_s: float | None
    waits: bool
    resumes: bool


def read_agent_options(words: Mapping[str, Any]) -> AgentOptions:
    """Return what the command's options say, by their names. Raises typer.BadParameter."""
    check_driver(words["driver"])
    _check_drivers_options(words)
    if words["api"] is None:
        misused("expected --api, the URL of Roost's main listener")
    version = words["service_version"] or SERVICE_VERSION
    state = _state_of(words)
    try:
        return AgentOptions(
            api=check_api(words["api"]),
            hosts=read_agent_hosts(words["host"], words["fleet"], _host_like(words, state, version)),
            state=state,
            token_file=words["token_file"],
            service_version=version,
            network_url=words["network_url"] or f"{words['api'].rstrip('/')}/network",
            network_token_file=words["network_token_file"],
            tls=client_tls(words["ca_file"], words["cert"], words["key"]),
            driver=read_host(words) if words["driver"] == "qemu" else _read_faults(words),
            fence_after_s=words["fence_after"],
            waits=not words["no_wait"],
            resumes=words["resume_guests"],
        )
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from error


def _check_drivers_options(words: Mapping[str, Any]) -> None:
    """End the command for an option of the other driver, which would do nothing. Raises typer.BadParameter."""
    other = "fake" if words["driver"] == "qemu" else "qemu"
    names = QEMU_OPTIONS if other == "qemu" else [name for name in words if name.startswith("fake_")]
    for name in names:
        if words["context"].get_parameter_source(name).name != "DEFAULT":
            misused(f"--{name.replace('_', '-')}: expected --driver {other}, of which it is an option")


def _state_of(words: Mapping[str, Any]) -> Path:
    state: Path | None = words["state"]
    return state or (Path("agent") if not words["host"] else Path("agent", words["host"][0]))


def _host_like(words: Mapping[str, Any], state: Path, version: int) -> HostReport:
    cell = words["cell"] or "cell1"
    if words["driver"] == "qemu":
        return replace(read_machine(words, state), cell=cell, service_version=version)
    sizes = {name: words[name] for name in ("vcpus", "ram_mb", "disk_gb")}
    networks = tuple(words["physical_network"] or ())
    return HostReport(name="", **sizes, physical_networks=networks, cell=cell, service_version=version)


def _read_faults(words: Mapping[str, Any]) -> Faults:
    names = ("fake_delay", "fake_pre_copy", "fake_fail", "fake_refuse", "fake_die", "fake_disks")
    return read_faults(*(words[name] for name in names))


def check_machine(words: Mapping[str, Any]) -> NoReturn:
    """Say what this machine has and lacks for guests, and pack their image; end with the status that says so."""
    from roost.agent.drivers.programs import ProgramFailed
    from roost.agent.drivers.qemu.check import check_and_prepare

    if words["driver"] != "qemu":
        misused("--check: expected --driver qemu, which needs something of this machine")
    try:
        findings = asyncio.run(check_and_prepare(read_host(words), _state_of(words)))
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from error
    except ProgramFailed as error:
        fail(RoostError(str(error)), status=2)
    for sentence in (*findings.lacks, *findings.notes, *findings.fine):
        typer.echo(sentence)
    raise typer.Exit(findings.status)


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
    except BadRequest as error:
        raise typer.BadParameter(str(error)) from error
    except RoostError as error:
        fail(error)
    run(_work(options, network, token))


async def _work(options: AgentOptions, network: NetworkApi, token: TokenSource) -> None:
    try:
        driver = await _open_driver(options)
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


async def _open_driver(options: AgentOptions) -> Driver:
    """Return the driver, open. Raises RoostError."""
    try:
        if isinstance(options.driver, Faults):
            driver: Driver = FakeDriver(options.state, options.driver)
        else:
            from roost.agent.drivers.qemu.check import make_driver

            assert options.hosts is not None
            driver = await make_driver(options.driver, host=options.hosts[0].name, state=options.state)
        await driver.open()
    except (StateInUse, OSError) as error:
        raise RoostError(f"--state {options.state}: {reason_of(error)}") from error
    return driver
