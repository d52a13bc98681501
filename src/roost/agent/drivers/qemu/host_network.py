"""The guests' network on their host: rules, DHCP, links, and until when NICs are up.

It is one picture, made from all guests at once and applied whole, after each change and every RENEW_S: nobody has to
know what was there before, or what others flushed or ended.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import structlog

from roost.agent.drivers.programs import ProgramFailed, run_program, search_path
from roost.agent.drivers.qemu.dhcp import Dhcp
from roost.agent.drivers.qemu.nics import LINKS, NicPlan, link_commands, list_vlans_left, render_table, run_ip
from roost.agent.drivers.state import write_whole
from roost.agent.lease import now_s

NFT_S = 10.0
RENEW_S = 20.0

log = structlog.get_logger()

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

    async def apply(self, needed: Collection[NicPlan] = ()) -> None:
        """Have rules, DHCP and links be as the guests are. What fails for NICs that nobody needs now is logged.

        Raises ProgramFailed, and OSError where DHCP fails on the segment of a NIC that is needed.
        """
        async with self._applying:
            await run_program("nft", "-f", "-", text=self._table())
            nics = list(self._nics_wanted())
            await self._dhcp.apply([nic for nic, _ in nics], needed={nic.segment for nic in needed})
            await self._set_links(nics, needed)

    @staticmethod
    async def _set_links(nics: Sequence[tuple[NicPlan, bool]], needed: Collection[NicPlan]) -> None:
        present = os.listdir(LINKS)
        gone = list_vlans_left(present, {nic.segment.key for nic, _ in nics})
        try:
            await run_ip([*(f"link delete {name}" for name in gone), *link_commands(nics, present)])
        except ProgramFailed as error:
            log.error("the host's links are not all as they should be", error=str(error))
            own = [(nic, up) for nic, up in nics if nic in needed]
            await run_ip(link_commands(own, os.listdir(LINKS)))

    async def renew(self) -> None:
        """Have all be as it should, for ever."""
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self.apply()
            except ProgramFailed as error:
                log.error("the host's network is not as it should be", error=str(error))

    def _table(self) -> str:
        seconds = None if self.end_s is None else int(self.end_s - now_s())
        nics = list(self._nics_wanted())
        ended = seconds is not None and seconds <= 0
        return render_table([nic for nic, _ in nics], {nic.tap: seconds for nic, up in nics if up and not ended})
