"""`roost-manage heal_network_info`: rebuilds at once what is kept with servers of their ports."""

import msgspec
from rich.console import Console

from roost.cli.managing.audit import open_compute
from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.plurals import many
from roost.cli.tables import print_rows
from roost.compute.service.network_info import Healed, heal_network_info, list_server_ids
from roost.seams.compute import ServerPort

DONE, DIFFERS = 0, 3


async def heal(target: LedgerTarget, console: Console, *, server: str | None, dry_run: bool, as_json: bool) -> int:
    """Rebuild, print what differed, return the exit status. server: None for all. Raises TargetRefused."""
    async with open_compute(target) as compute:
        healed: list[Healed] = []
        ids = [server] if server is not None else await list_server_ids(compute, after="")
        while ids:
            healed += await heal_network_info(compute, ids, dry_run=dry_run)
            ids = [] if server is not None else await list_server_ids(compute, after=ids[-1])
    if as_json:
        console.file.write(msgspec.json.encode({"dry_run": dry_run, "servers": healed}).decode() + "\n")
    else:
        _print(console, healed, dry_run=dry_run)
    return DIFFERS if any(not item.written for item in healed) else DONE


def _print(console: Console, healed: list[Healed], *, dry_run: bool) -> None:
    if not healed:
        console.print("The network info of every server is what its ports are.")
        return
    rows = []
    for item in healed:
        outcome = "written" if item.written else "differs" if dry_run else "being worked on"
        rows.append((item.server_id, item.name, _show(item.before), _show(item.after), outcome))
    print_rows(console, ("server", "name", "kept", "its ports", ""), rows)
    console.print(f"{many(len(healed), 'server')} had network info that was not its ports.")


def _show(ports: tuple[ServerPort, ...]) -> str:
    return ", ".join(f"{port.port_id or port.tag} ({', '.join(port.addresses)})" for port in ports) or "none"
