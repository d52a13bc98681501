"""The guests' network on their host: rules, DHCP, and until when NICs are up, made from all guests at once."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.programs import ProgramFailed, run_program, search_path
from roost.agent.drivers.qemu.dhcp import Dhcp
from roost.agent.drivers.qemu.nics import (
    LINKS,
    NicPlan,
    keep_address_commands,
    link_commands,
    plug_commands,
    render_table,
    run_ip,
)
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
        end = self._file.read_text() if self._file.exists() and not kernel_is_new else "None"
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

    def _table(self) -> str:
        seconds = None if self.end_s is None else int(self.end_s - now_s())
        nics = list(self._nics_wanted())
        ended = seconds is not None and seconds <= 0
        return render_table([nic for nic, _ in nics], {nic.tap: seconds for nic, up in nics if up and not ended})


async def plug_taps(nics: Sequence[NicPlan], *, up: bool) -> None:
    """Have taps be in their bridges, which may be new, and up or down. Raises ProgramFailed."""
    kept = keep_address_commands(nic.segment.bridge for nic in nics)
    await run_ip([*kept, *plug_commands(nics), *link_commands(nics, up=up)])


def check_bridges(nics: Iterable[NicPlan]) -> None:
    """Raise LaunchFailed where the host has not the bridge that it must have for a NIC."""
    for bridge in (nic.segment.uplink or nic.segment.bridge for nic in nics):
        if not (LINKS / bridge).exists():
            raise LaunchFailed(f"this host has no bridge {bridge}")
