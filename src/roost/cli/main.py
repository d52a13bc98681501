"""The `roost` command: reads options, calls the part that does it, and turns errors into one sentence and a status.

Exit status 0: done; 1: it failed; 2: wrong usage. Errors and logs go to standard error. Each command imports
its parts when it is called: those of all together take 0.8 s.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from roost.cli.agent_options import DriverName, FenceAfter, Fleet, NoWait, PhysicalNetworks, ResumeGuests
from roost.cli.asking import capacity_commands, cloud_commands, drain_commands
from roost.cli.asking import commands as asking
from roost.cli.asking.commands import CaFile
from roost.cli.endings import StatusCommand, fail, run
from roost.cli.fake_options import FakeDelay, FakeDie, FakeDisks, FakeFail, FakePreCopy, FakeRefuse
from roost.cli.help_text import PlainCommand, new_program
from roost.cli.lifeline import end_with_stdin
from roost.cli.network_options import NetworkTokenFile, NetworkUrl, ServiceVersion
from roost.cli.printing import print_answer, print_note, stopped_text
from roost.cli.qemu_options import (
    Accel,
    Bridges,
    Check,
    Cpu,
    MigrateListen,
    QemuAccount,
    ReserveCpus,
    ReserveDisk,
    ReserveMemory,
    SharedDisks,
)
from roost.cli.serving.crash_points import CRASH_POINTS
from roost.cli.serving.log_options import LogFileOption, LogFormatOption, LogLevelOption
from roost.cli.serving.option_checks import misused
from roost.cli.serving.roles import AUTHS, PRESETS
from roost.cli.serving.tls_options import (
    AgentCa,
    ClientCert,
    ClientKey,
    TlsCert,
    TlsKey,
)
from roost.platform.crash import check_crash_point
from roost.platform.errors import BadRequest
from roost.platform.logs import DEFAULTS as LOG_DEFAULTS
from roost.platform.logs import configure_logging
from roost.platform.settings import LogSettings

STOP_PATIENCE_S = 30.0

UntilStdinEnds = Annotated[
    bool, typer.Option("--until-stdin-ends", help="Stop when standard input ends: with the program that started it.")
]
Services = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVICE...", help="all, or any of: placement, network, compute, conductor."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="API processes.", show_default="the number of cores, from 2 to 8")
]
AgentWorkers = Annotated[int | None, typer.Option(min=1, max=64, help="Processes that agents ask.", show_default="1")]
Conductors = Annotated[int | None, typer.Option(min=1, max=64, help="Conductor processes.", show_default="1")]
Auth = Annotated[str | None, typer.Option(metavar="|".join(AUTHS), help="How callers are known.", show_default="none")]
InsecureAuth = Annotated[
    bool, typer.Option("--insecure-auth", help="Let --auth noauth2 listen where others reach it: each may be an admin.")
]
PolicyWord = Annotated[
    str | None, typer.Option(metavar="NAME|FILE", help=f"What callers may: {', '.join(PRESETS)}, or a policy file.")
]

Listen = Annotated[
    str | None, typer.Option(help="Address and port; port 0 takes a free one.", show_default="127.0.0.1:8778")
]
AgentListen = Annotated[
    str | None,
    typer.Option(
        help="Where agents ask; unless --auth is none, with a token of `roost-manage agent-token create`.",
        show_default="a free port of 127.0.0.1; of --listen with --auth none",
    ),
]
MetricsListen = Annotated[
    str | None,
    typer.Option(help="Where the metrics are read; a port alone is one of 127.0.0.1.", show_default="nowhere"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="The file that has the agent's token.", show_default="$ROOST_AGENT_TOKEN, if there is one"),
]
Cells = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="The conductors carry on with servers of this cell only; may be repeated."),
]
HostCell = Annotated[str, typer.Option(help="The cell that the hosts belong to; flat networks have pools for each.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the private PostgreSQL lives; several Roosts may share one.", show_default="./roost"),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(envvar="ROOST_DATABASE", help="Use this PostgreSQL instead: postgresql://user:password@host/name."),
]
WithNeutron = Annotated[
    bool, typer.Option("--with-neutron", help="Keep the ledger in agreement with the Neutron of [neutron].")
]
Beside = Annotated[
    bool, typer.Option("--beside", help="An older release goes on: leave it all that it needs of the database.")
]
Template = Annotated[
    Path | None,
    typer.Option(envvar="ROOST_PG_TEMPLATE", help="A data directory, not in use, of which a new one begins as a copy."),
]

State = Annotated[
    Path | None,
    typer.Option(help="Where the driver keeps its guests.", show_default="agent/HOST with --host, agent with --fleet"),
]

PlacementUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Place on this Placement service, upstream's or another Roost's, from 1.38 on."),
]
ConfigFile = Annotated[
    list[Path] | None,
    typer.Option(
        help="A roost.toml, or a folder of such; may be repeated, a later one wins, ROOST_SECTION_OPTION over all.",
        show_default="/etc/roost/roost.toml",
    ),
]

app = new_program("roost", "Roost places virtual machines where their network has room.")


def main() -> None:
    """Run the command line."""
    app()


@app.command("serve", cls=PlainCommand)
def _serve(
    services: Services = None,
    data_dir: DataDir = None,
    database: DatabaseUrl = None,
    listen: Listen = None,
    agent_listen: AgentListen = None,
    metrics_listen: MetricsListen = None,
    workers: Workers = None,
    agent_workers: AgentWorkers = None,
    conductors: Conductors = None,
    auth: Auth = None,
    insecure_auth: InsecureAuth = False,
    policy: PolicyWord = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    agent_ca: AgentCa = None,
    placement_url: PlacementUrl = None,
    pg_bin: Annotated[Path | None, typer.Option(help="The bin directory of another PostgreSQL, 15 or later.")] = None,
    pg_template: Template = None,
    config: ConfigFile = None,
    beside: Beside = False,
    cell: Cells = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
    log_file: LogFileOption = None,
    with_neutron: WithNeutron = False,
    until_stdin_ends: UntilStdinEnds = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve the APIs, with a database of its own unless one is given.

    Prints one line with its address once it answers; SIGTERM or Ctrl-C stops it.

    Example: `roost serve all --data-dir /var/lib/roost --listen 127.0.0.1:8778 --workers 2`
    """
    from roost.cli.serving.serve_options import choose_options
    from roost.cli.serving.supervisor import serve
    from roost.cli.settings import read_settings

    try:
        options = choose_options(
            read_settings(config), config,
            target=(data_dir, database, pg_bin), log=(log_level, log_format, log_file),
            tls=(tls_cert, tls_key, agent_ca),
            services=services, listen=listen, agent_listen=agent_listen,
            metrics_listen=metrics_listen, workers=workers, agent_workers=agent_workers,
            conductors=conductors, auth=auth, insecure_auth=insecure_auth or None, policy=policy,
            with_neutron=with_neutron or None, beside=beside,
            pg_template=pg_template, placement_url=placement_url, cells=tuple(cell or ()),
        )  # fmt: skip
    except BadRequest as error:
        fail(error)
    _begin("supervisor", until_stdin_ends=until_stdin_ends, log=options.log)
    run(serve(options, ready=lambda url: print_answer(_serving_text(options.services, url, as_json=as_json))))
    print_note("Roost has stopped." if options.target.data_dir is None else stopped_text(options.target.data_dir))


@app.command("agent", cls=PlainCommand)
def _agent(
    context: typer.Context,
    api: Annotated[str | None, typer.Option(metavar="URL", help="Where Roost's main listener is.")] = None,
    host: Annotated[list[str] | None, typer.Option(help="A host to serve; may be repeated.")] = None,
    fleet: Fleet = None,
    driver: DriverName = "fake",
    state: State = None,
    physical_network: PhysicalNetworks = None,
    cell: HostCell = "cell1",
    vcpus: Annotated[int, typer.Option(min=1, help="Of each host; qemu: the machine's.")] = 64,
    ram_mb: Annotated[int, typer.Option(min=1, help="Of each host; qemu: the machine's.")] = 262144,
    disk_gb: Annotated[int, typer.Option(min=1, help="Of each host; qemu: the machine's.")] = 2000,
    fence_after: FenceAfter = None,
    resume_guests: ResumeGuests = False,
    no_wait: NoWait = False,
    bridge: Bridges = None,
    accel: Accel = "auto",
    cpu: Cpu = None,
    migrate_listen: MigrateListen = None,
    account: QemuAccount = "roost-qemu",
    reserve_cpus: ReserveCpus = 0,
    reserve_memory: ReserveMemory = 0,
    reserve_disk: ReserveDisk = 0,
    disks: SharedDisks = None,
    check: Check = False,
    fake_delay: FakeDelay = 0.0,
    fake_pre_copy: FakePreCopy = 0.0,
    fake_fail: FakeFail = None,
    fake_refuse: FakeRefuse = None,
    fake_die: FakeDie = None,
    fake_disks: FakeDisks = False,
    token_file: TokenFile = None,
    service_version: ServiceVersion = None,
    network_url: NetworkUrl = None,
    network_token_file: NetworkTokenFile = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Run the agent of one host, of several, or of a whole fleet.

    A host that a cloud file declared keeps its declared capacity and physical networks. A Roost with --auth wants a
    token, made by `roost-manage agent-token create`; a file that has a new one is read while the agent runs.

    Example: `roost agent --fleet all --api http://127.0.0.1:8778`
    """
    words = dict(locals())
    from roost.cli.agent_command import check_machine, read_agent_options, run_agent_command

    if check:
        check_machine(words)
    options = read_agent_options(words)
    _begin("agent", until_stdin_ends=until_stdin_ends)
    run_agent_command(options)
    print_note(f"The agent has stopped. What its hosts run is kept in {options.state.absolute()}.")


app.command("load", cls=PlainCommand)(cloud_commands.load)
app.command("demo", cls=PlainCommand)(cloud_commands.demo)
app.command("dev", cls=PlainCommand)(cloud_commands.dev)
app.command("servers", cls=PlainCommand)(asking.servers)
app.command("status", cls=PlainCommand)(asking.status)
app.command("explain", cls=StatusCommand)(capacity_commands.explain)
app.command("capacity", cls=StatusCommand)(capacity_commands.capacity)
app.command("drain", cls=PlainCommand)(drain_commands.drain)
app.command("recover", cls=PlainCommand)(drain_commands.recover)
app.command("events", cls=PlainCommand)(asking.events)


def _serving_text(services: Sequence[str], address: str, *, as_json: bool) -> str:
    """Return the one line of `serve`. address: "" for a conductor alone, which answers nobody."""
    if as_json:
        return msgspec.json.encode({"url": address or None, "services": services}).decode()
    return f"Roost serves {', '.join(services)}" + (f" at {address}" if address else "")


def _begin(name: str, *, until_stdin_ends: bool, log: LogSettings = LOG_DEFAULTS) -> None:
    """Set up the logs of a command that stays, and its end."""
    check_crash_point(CRASH_POINTS)
    try:
        configure_logging(name, log)
    except BadRequest as error:
        misused(str(error))
    if until_stdin_ends:
        end_with_stdin(patience_s=STOP_PATIENCE_S)


if __name__ == "__main__":
    main()
