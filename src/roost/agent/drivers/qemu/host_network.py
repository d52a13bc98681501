"""The guests' network on their host: rules, DHCP, and until when NICs are up, made from all guests at once."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from roost.agent.drivers.programs import ProgramFailed, run_program, search_path
from roost.agent.drivers.qemu.dhcp import Dhcp
from roost.agent.drivers.qemu.nics import NicPlan, render_table
from roost.agent.drivers.state import write_whole
from roost.agent.lease import now_s

NFT_S = 10.0
Wanted = Callable[[], Iterable[tuple[NicPlan, bool]]]
"""Of all guests, each NIC, and whether it is to be up."""


class HostNetwork:
    """The NICs of one host. end_s: when all go down by themselves, by CLOCK_BOOTTIME; None: never."""

    def __init__(self, directory: Path, wanted: Wanted, *, kernel_is_new: bool) -> None:
        self._file = directory / "nics-end"
        self._nics_wanted = wanted
        self._dhcp = Dhcp(directory / "segments")
        self._applying = asyncio.Lock()
        end = self._file.read_text().strip() if self._file.exists() and not kernel_is_new else "None"
        self.end_s = None if end == "None" else float(end)

    @property
    def is_over(self) -> bool:
        """Return whether the NICs went down by themselves."""
        return self.end_s is not None and self.end_s <= now_s()

    def note_end(self, at_s: float | None) -> None:
        """Note and write when the NICs go down; it holds once this is applied. Raises OSError."""
        self.end_s = at_s
        write_whole(self._file, str(at_s).encode())

    def apply_now(self) -> None:
        """Have the rules be as they should be, before this returns. Raises ProgramFailed."""
        environment = {**os.environ, "PATH": search_path()}
        command = ["nft", "-f", "-"]
        try:
            subprocess.run(command, input=self._table(), text=True, check=True, timeout=NFT_S, env=environment)
        except (OSError, subprocess.SubprocessError) as error:
            raise ProgramFailed(f"nft does not take the rules: {error}") from error

    async def apply(self, needed: Iterable[NicPlan] = ()) -> None:
        """Have rules and DHCP be as the guests are.

        Raises ProgramFailed, and OSError where DHCP fails on the segment of a NIC that is needed.
        """
        async with self._applying:
            await run_program("nft", "-f", "-", text=self._table())
            await self._dhcp.apply([nic for nic, _ in self._nics_wanted()], needed={nic.segment for nic in needed})

    async def renew(self) -> None:
        """Have all be as it should, whatever became of it: rules may be flushed, and a bridge be a new one."""
        self._dhcp.doubt()
        await self.apply()

    def _table(self) -> str:
        seconds = None if self.end_s is None else int(self.end_s - now_s())
        nics = list(self._nics_wanted())
        ended = seconds is not None and seconds <= 0
        return render_table([nic for nic, _ in nics], {nic.tap: seconds for nic, up in nics if up and not ended})
