"""The `roost-manage` command: what operators do to a Roost's database, beside the services.

Exit status 0: done, nothing is left to do; 1: it failed; 2: wrong usage; 3 and up: as each command says. Those that
automation repeats end with 255 and 127 instead of 1 and 2. Each command imports its parts when it is called.
"""

import sys
from enum import Enum
from functools import partial
from typing import Annotated

import typer

from roost.cli import endings
from roost.cli.asking.commands import AsJson
from roost.cli.endings import FAILED, CheckGroup, StatusCommand
from roost.cli.help_text import PlainCommand, PlainGroup, new_program
from roost.cli.managing import config_commands, upstream_commands
from roost.cli.managing.agent_token_commands import agent_token_app
from roost.cli.managing.guest_commands import check_server, guests_app
from roost.cli.managing.host_commands import host_app
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.manage_options import (
    DifferencesAsJson,
    DryRun,
    ask_at_work,
    confirm,
    on_database,
    run_manage,
    run_with_status,
)
from roost.cli.managing.recovery_commands import recovery_app
from roost.cli.serving.option_checks import UUID
from roost.cli.tables import table_console
from roost.platform.logs import configure_logging

app = new_program("roost-manage", "What operators do to a Roost's database.")
app.add_typer(agent_token_app, name="agent-token")
app.add_typer(recovery_app, name="recovery")
app.add_typer(guests_app, name="guests")
app.add_typer(host_app, name="host")
placement_app = new_program("placement", "What nova-manage, placement-manage and placement-status do to Placement.")
placement_app.add_typer(upstream_commands.db_app, name="db")
placement_app.add_typer(upstream_commands.status_app, name="status")
app.add_typer(placement_app, name="placement")
db_app = typer.Typer(cls=PlainGroup, help="The database between two releases of Roost.", no_args_is_help=True)
app.add_typer(db_app, name="db")
status_app = typer.Typer(
    cls=CheckGroup, help="Whether this Roost is ready: for the next release, for its Neutron.", no_args_is_help=True
)
app.add_typer(status_app, name="status")


class ResourceClass(Enum):
    """The inventories whose ratio an aggregate can say."""

    VCPU = "VCPU"
    MEMORY_MB = "MEMORY_MB"
    DISK_GB = "DISK_GB"


def main() -> None:
    """Run the command line."""
    app()


@app.command("import-placement", cls=PlainCommand)
@on_database
def _import_placement(
    source_url: Annotated[str, typer.Option("--from", metavar="URL", help="The Placement API to read.")],
    *,
    target: LedgerTarget,
    dry_run: DryRun = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove what only Roost has: providers, consumers, custom names.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Undo what was written to Roost since it was imported.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(envvar="OS_TOKEN", help="For the source; without it, OS_AUTH_URL and the like are used."),
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(envvar="OS_CACERT", help="Certificates to trust, for an https source and Keystone.")
    ] = None,
    as_json: DifferencesAsJson = False,
) -> None:
    """Make Roost's ledger the same as another Placement's, read over its API.

    It may be repeated: only what differs is written, all of it at once or nothing.

    Exit status 3: differences were found on --dry-run. 4: something stays different, and the report says what.

    Example: `roost-manage import-placement --from http://placement.example/placement --dry-run`
    """
    from roost.cli.managing.importing import import_placement

    if not source_url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--from {source_url}: expected a URL such as http://placement.example/placement")
    work = import_placement(
        source_url,
        target,
        token=token,
        ca_file=ca_file,
        dry_run=dry_run,
        delete=delete,
        overwrite=overwrite,
        as_json=as_json,
    )
    raise typer.Exit(run_manage(work))


@app.command("export-placement", cls=PlainCommand)
@on_database
def _export_placement(
    target_url: Annotated[str, typer.Option("--to", metavar="URL", help="The Placement API to write.")],
    *,
    target: LedgerTarget,
    dry_run: DryRun = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove what only the other has: providers, consumers, custom names.")
    ] = False,
    without_port_claims: Annotated[
        bool,
        typer.Option("--without-port-claims", help="Leave out what ports hold: the other's Neutron releases none."),
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(envvar="OS_TOKEN", help="For the target; without it, OS_AUTH_URL and the like are used."),
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(envvar="OS_CACERT", help="Certificates to trust, for an https target and Keystone.")
    ] = None,
    as_json: DifferencesAsJson = False,
) -> None:
    """Make another Placement hold what Roost holds, over its API: the way back.

    It may be repeated, after an interruption too: only what differs is written. Generations are the other's own.

    Exit status 3: differences were found on --dry-run. 4: something stays different, and the report says what.

    Example: `roost-manage export-placement --to http://placement.example/placement --dry-run`
    """
    from roost.cli.managing.exporting import export_placement

    if not target_url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--to {target_url}: expected a URL such as http://placement.example/placement")
    say = typer.echo if as_json else None
    work = export_placement(
        target_url, target, token=token, ca_file=ca_file, dry_run=dry_run, delete=delete,
        port_claims=not without_port_claims, say=say,
    )  # fmt: skip
    raise typer.Exit(run_manage(work))


app.command("convert-config", cls=PlainCommand)(config_commands.convert_config)
app.command("check-config", cls=StatusCommand)(config_commands.check_config)


@app.command("audit", cls=StatusCommand)
@on_database
def _audit(
    *,
    target: LedgerTarget,
    repair: Annotated[bool, typer.Option("--repair", help="Put it right, after showing what.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --repair: do not ask first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every drift as one JSON object; never asks.")] = False,
) -> None:
    """Say what differs between addresses, ports, claims, inventories, servers and hosts, beside a live Roost or alone.

    Exit status 0: nothing has drifted. 3: something has, or is left after --repair. 4: all of it was repaired.
    5: Neutron cannot be asked. 127: wrong usage, or a roost.toml that cannot work. 255: it failed.

    Example: `roost-manage audit --data-dir /var/lib/roost --repair`
    """
    from roost.cli.managing.audit import audit

    asks = repair and not yes and not as_json and sys.stdin.isatty()
    question = partial(ask_at_work, "Repair what can be?") if asks else None
    work = audit(target, table_console(), repair=repair, as_json=as_json, confirm=question)
    run_with_status(work)


@app.command("adopt", cls=StatusCommand)
@on_database
def _adopt(*, target: LedgerTarget, dry_run: DryRun = False, as_json: DifferencesAsJson = False) -> None:
    """Make the ledger count the addresses that a running Neutron's ports have, as `roost serve --with-neutron` does.

    Which Neutron says the section [neutron] of the roost.toml, or ROOST_NEUTRON_URL. It may be repeated.

    Exit status 0: all that differed is written. 3: differences were found on --dry-run. 4: there was nothing to do.
    5: Neutron cannot be asked, or shows no segment. 6: something could not be written, and the report says what.
    127: wrong usage, or a roost.toml that cannot work. 255: it failed.

    Example: `ROOST_NEUTRON_URL=http://neutron.example:9696 roost-manage adopt --data-dir /var/lib/roost --dry-run`
    """
    from roost.cli.managing.adopt import adopt

    console = table_console()
    work = adopt(target, console, dry_run=dry_run, as_json=as_json)
    run_with_status(work)


@app.command("destroy-guest", cls=PlainCommand)
@on_database
def _destroy_guest(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The id of the guest's server.")],
    host: Annotated[str, typer.Option(help="The host that has the guest.")],
    *,
    target: LedgerTarget,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
) -> None:
    """Order a host to destroy a guest that this database does not know: the same as `guests destroy`.

    Such a guest is left by the restore of an older database. It runs, and its addresses are held until it is gone.

    Example: `roost-manage destroy-guest 5b5c0e4e-… --host r1-h1 --data-dir /var/lib/roost`
    """
    from roost.cli.managing.guests import destroy_guest

    check_server(server)
    if not yes:
        confirm(f"Destroy the guest of server {server} on host {host}?")
    raise typer.Exit(run_manage(destroy_guest(target, server, host)))


@placement_app.command("sync_aggregates", cls=StatusCommand)
@app.command("sync_placement_aggregates", cls=StatusCommand)
@on_database
def _sync_aggregates(
    *,
    target: LedgerTarget,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also take providers out of aggregates that Roost put them into.")
    ] = False,
    dry_run: DryRun = False,
    host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this host; may be repeated.")] = None,
    aggregate: Annotated[
        list[str] | None, typer.Option(metavar="NAME|UUID", help="Only this aggregate; may be repeated.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print each host that was written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put every host's provider into the placement aggregates that mirror its host aggregates.

    It asks once for each aggregate, writes only hosts that differ, and may be repeated.

    Exit status 0: all is so now. 2: Placement failed. 3: it refused a host. 5: a member is no host. 6: Placement has no
    provider of a host. 7: --dry-run found something to do. 127: wrong usage, or a roost.toml that cannot work. 255: it
    failed.

    Example: `roost-manage sync_placement_aggregates --prune --dry-run --data-dir /var/lib/roost`
    """
    from roost.cli.managing import aggregates

    work = aggregates.sync(
        target,
        table_console(),
        prune=prune,
        dry_run=dry_run,
        hosts=host or [],
        aggregates=aggregate or [],
        verbose=verbose,
        as_json=as_json,
    )
    run_with_status(work)


@app.command("set_allocation_ratio", cls=PlainCommand)
@on_database
def _set_allocation_ratio(
    aggregate: Annotated[str, typer.Option(metavar="NAME|UUID", help="Whose hosts, now and later.")],
    resource_class: Annotated[ResourceClass, typer.Option(help="Of which inventory.")],
    allocation_ratio: Annotated[
        float | None, typer.Option(min=0.000001, max=999999.0, help="How much more than there is may be claimed: 1.5.")
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="The default again.")] = False,
    *,
    target: LedgerTarget,
) -> None:
    """Set the allocation ratio of a host aggregate: hosts have it as long as they are in it.

    It is kept in the aggregate's metadata. Of several aggregates of a host the smallest ratio counts.

    Example: `roost-manage set_allocation_ratio --aggregate dense --resource-class VCPU --allocation-ratio 4`
    """
    from roost.cli.managing import aggregates

    if (allocation_ratio is None) != unset:
        raise typer.BadParameter("expected --allocation-ratio or --unset, one of them")
    work = aggregates.set_ratio(
        target,
        table_console(),
        aggregate=aggregate,
        resource_class=resource_class.value,
        ratio=allocation_ratio,
    )
    raise typer.Exit(run_manage(work))


@app.command("notifications", cls=PlainCommand)
@on_database
def _notifications(
    *,
    target: LedgerTarget,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Have what was given up tried again, for another day.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how many notifications wait for each destination, how many were given up, and why it took none.

    Exit status 3: a destination takes nothing, or some were given up (parked).

    Example: `roost-manage notifications --data-dir /var/lib/roost --retry-parked`
    """
    from roost.cli.managing import notifications

    work = notifications.show(target, table_console(), retry_parked=retry_parked, as_json=as_json)
    raise typer.Exit(run_manage(work))


@db_app.command("upgrade", cls=PlainCommand)
@on_database
def _upgrade_db(
    *,
    target: LedgerTarget,
    expand: Annotated[bool, typer.Option("--expand", help="Only add: an older release goes on beside.")] = False,
) -> None:
    """Bring the database up to date for this release: both steps, or only the one that an older release survives.

    Without --expand it also takes away what only older releases need, and refuses to while one of them is connected.

    Example: `roost-manage db upgrade --expand --database postgresql://roost@db.example/roost`
    """
    from roost.cli.managing import upgrading

    run_manage(upgrading.upgrade(target, table_console(), expand=expand))


@db_app.command("check", cls=PlainCommand)
@on_database
def _check_db(
    *,
    target: LedgerTarget,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Say how far the database is, which step comes next, and who still uses an older release.

    Exit status 0: up to date. 3: it is to be expanded. 4: it is expanded, and to be contracted.

    Example: `roost-manage db check --database postgresql://roost@db.example/roost`
    """
    from roost.cli.managing import upgrading

    raise typer.Exit(run_manage(upgrading.check(target, table_console(), as_json=as_json)))


@status_app.command("upgrade-check", cls=PlainCommand)
@on_database
def _upgrade_check(
    *,
    target: LedgerTarget,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as one JSON object.")] = False,
) -> None:
    """Say in which order servers are built and why, and what the next release will require.

    Exit status 0: ready. 1: a warning. 2: a failure. 255: the check itself failed.

    Example: `roost-manage status upgrade-check --data-dir /var/lib/roost`
    """
    from roost.cli.managing.upgrade_check import upgrade_check

    configure_logging("manage")
    work = upgrade_check(target, table_console(), as_json=as_json)
    raise typer.Exit(endings.run(work, program="roost-manage", failed=FAILED))


@status_app.command("neutron", cls=PlainCommand)
@on_database
def _status_neutron(
    *,
    target: LedgerTarget,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as one JSON object.")] = False,
) -> None:
    """Say whether servers of an existing OpenStack get hosts by the addresses of its Neutron, and what is in the way.

    Neutron is asked as a round of `roost serve placement --with-neutron` asks it; nothing is written.

    Exit status 0: ready. 1: a warning. 2: a failure. 255: the check itself failed.

    Example: `roost-manage status neutron --data-dir /var/lib/roost --config /etc/roost/roost.toml`
    """
    from roost.cli.managing.neutron_status import neutron_status

    configure_logging("manage")
    work = neutron_status(target, table_console(), as_json=as_json)
    raise typer.Exit(endings.run(work, program="roost-manage", failed=FAILED))


@app.command("heal_network_info", cls=StatusCommand)
@on_database
def _heal_network_info(
    server: Annotated[str | None, typer.Option(metavar="ID", help="Of this server.", show_default="all")] = None,
    *,
    target: LedgerTarget,
    dry_run: DryRun = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every server that differed as JSON.")] = False,
) -> None:
    """Rebuild what is kept with servers of their ports, as conductors do every so often.

    Ports are only read. A server that is being worked on is left alone: who works on it writes it.

    Exit status 0: all is as the ports are. 3: something differs on --dry-run, or could not be written now. 127: wrong
    usage, or a roost.toml that cannot work. 255: it failed.

    Example: `roost-manage heal_network_info --data-dir /var/lib/roost --dry-run`
    """
    from roost.cli.managing.network_info import heal

    if server is not None and not UUID.fullmatch(server):
        raise typer.BadParameter(f"--server {server}: expected the id of a server")
    work = heal(target, table_console(), server=server, dry_run=dry_run, as_json=as_json)
    run_with_status(work)


if __name__ == "__main__":
    main()
