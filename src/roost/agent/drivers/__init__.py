"""What a hypervisor driver does for the agent."""

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from roost.seams.agent import GuestKey, GuestOrder, ListedGuest
from roost.seams.guests import MemorySource


class LaunchFailed(Exception):
    """A guest cannot be what was asked for; the text is a sentence for people."""


class Driver(Protocol):
    """Makes and destroys guests. What it has made is known again after a restart.

    An order's `ports` have ids, MACs and addresses; of what hosts have, the command line tells the agent.
    """

    async def open(self) -> None:
        """Find the guests that are there, and end what was half done when the agent before ended; called once, first.

        Raises RoostError where this host cannot have guests.
        """

    @property
    def instance_id(self) -> str:
        """Return the UUID of this agent, which is kept with its guests and lost only when they are."""

    @property
    def secret(self) -> str:
        """Return what proves that this is the agent with that id; drawn once, and kept with the id."""

    @property
    def needs_descriptions(self) -> bool:
        """Return whether its orders are to say what is around the guests' NICs, and where memory goes."""

    @property
    def keeps_disks(self) -> bool:
        """Return whether its guests have root disks, which are on their hosts."""

    def read_mark(self) -> str:
        """Return the mark that was kept last; "" for none. It is lost with the guests."""

    def keep_mark(self, mark: str) -> None:
        """Keep the mark beside the guests, whole or not at all. Called on the event loop: it must not block."""

    def guests_by_key(self) -> Mapping[GuestKey, ListedGuest]:
        """Return the guests that are there, whole, with attempt, state and sequence; the rest may be missing.

        A sequence is higher than all before it, also those before a restart. Called on the event loop: it must not
        block.
        """

    def list_guests(self) -> Sequence[ListedGuest]:
        """Return the same guests with all that there is to say of them, as they are now.

        resume: its host was started anew since the guest ran, and that stopped it. Called on the event loop: it must
        not block.
        """

    async def own_changes(self) -> Set[GuestKey]:
        """Wait until guests have changed though nobody asked for that, and return them; each change is told once.

        What the host's own restart did is in the list alone. It may be cancelled, and loses nothing by that.
        """

    async def launch(self, order: GuestOrder) -> None:
        """Make the guest, in the state that is desired; one that a lower attempt left behind is replaced.

        Its root disk is the one that the order says, or a new one. Raises LaunchFailed. It may be cancelled: `destroy`
        is called then, and after every failure.
        """

    async def expect(self, order: GuestOrder) -> MemorySource | None:
        """Return where the memory, or the disk, of a guest is awaited that is to be launched; None: nothing is sent.

        Raises OSError where its disks cannot be seen.
        """

    def hurry(self, key: GuestKey) -> None:
        """End the launch that takes over another guest's memory now, at the price of a longer pause.

        One that is not at work is fine. Called on the event loop: it must not block.
        """

    async def change(self, order: GuestOrder) -> None:
        """Bring the guest of this attempt into the state that is desired: stopped, running, and so on.

        It has exactly the order's NICs then, also where it is in that state already.
        With a meeting, one that has its NICs up begins to send its memory there, until little is left of it; one that
        is to stop sends the rest. One that was stopped already sends its disk.

        Raises LaunchFailed, and leaves it as it was. It may be cancelled.
        """

    async def destroy(self, key: GuestKey, *, attempt: int, disk: bool) -> None:
        """Leave nothing of the guest, if that attempt or a lower one made it; one that is not there is fine.

        disk: of its root disk neither, which is otherwise there for the next attempt.
        """

    def cut_off(self, key: GuestKey, *, attempt: int) -> None:
        """Have the guest's NICs be down until it is destroyed, if that attempt or a lower one made it.

        They are so before any NIC is up for longer by a later `end_nics`, and for an agent after this one.
        Raises OSError where that is not written; it holds until this agent ends all the same. Called on the event loop:
        it must not block.
        """

    def nics_end_s(self, *, but_on: Set[str] = frozenset()) -> float | None:
        """Return when the first NICs go down by themselves, by CLOCK_BOOTTIME; None: never. but_on: hosts left out."""

    def limit_nics(self, at_s: float) -> None:
        """Have no guest's NICs stay up for longer than until then, by CLOCK_BOOTTIME; earlier ends stand.

        As `end_nics` otherwise, but that nothing holds where OSError is raised.
        """

    def end_nics(self, at_s: float | None, *, but_on: Set[str] = frozenset()) -> None:
        """Have the NICs of all guests go down by themselves then, by CLOCK_BOOTTIME; None: never.

        They go down also when the agent is dead or stopped, and come up again with a later time. but_on: hosts whose
        guests keep the time that they have. Raises OSError where that is not written; it holds until this agent ends
        all the same. Called on the event loop: it must not block.
        """

    async def close(self) -> None:
        """Close what is open; the guests stay."""
