"""`roost-manage recovery`: shows what records that went back in time wait for, and ends the wait."""

import msgspec
from rich.console import Console

from roost.cli.managing.audit import open_compute
from roost.cli.managing.ledger_target import LedgerTarget
from roost.compute.rules.recoveries import recovery_sentence
from roost.compute.service import recovery as service

DONE, WAITING = 0, 3


async def show_recovery(target: LedgerTarget, console: Console, *, as_json: bool) -> int:
    """Print the recovery that is under way; return the exit status. Raises TargetRefused."""
    async with open_compute(target) as compute:
        recovery = await service.find_recovery(compute)
    if as_json:
        console.file.write(msgspec.json.encode({"recovery": recovery}).decode() + "\n")
    elif recovery is None:
        console.print("The records did not go back in time, or follow the hosts again.")
    else:
        console.print(recovery_sentence(recovery), soft_wrap=True)
    return DONE if recovery is None else WAITING


async def end_recovery(target: LedgerTarget, console: Console) -> int:
    """End the recovery whatever was listed; return the exit status. Raises TargetRefused, NoRecovery."""
    async with open_compute(target) as compute:
        recovery = await service.end_recovery(compute)
    console.print(f"The records are believed again; {recovery.missing} hosts had not listed their guests.")
    return DONE
