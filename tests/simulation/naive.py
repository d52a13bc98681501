"""What each request of a server, port or subnet should have been answered, by tables that know nothing of Roost."""

from typing import NamedTuple

STANDING = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
ALLOWED: dict[str, frozenset[str]] = {
    "stop": frozenset({"ACTIVE"}),
    "start": frozenset({"SHUTOFF"}),
    "pause": frozenset({"ACTIVE"}),
    "unpause": frozenset({"PAUSED"}),
    "suspend": frozenset({"ACTIVE"}),
    "resume": frozenset({"SUSPENDED"}),
    "reboot-soft": frozenset({"ACTIVE"}),
    "reboot-hard": STANDING,
    "rebuild": frozenset({"ACTIVE", "SHUTOFF"}),
    "migrate": frozenset({"ACTIVE", "SHUTOFF", "SHELVED"}),
    "resize": frozenset({"ACTIVE", "SHUTOFF"}),
    "live-migrate": frozenset({"ACTIVE", "PAUSED"}),
    "evacuate": STANDING | {"REBOOT", "HARD_REBOOT", "REBUILD", "SHELVED"},
    "shelve": STANDING,
    "unshelve": frozenset({"SHELVED_OFFLOADED", "SHELVED"}),
    "confirm": frozenset({"VERIFY_RESIZE"}),
    "revert": frozenset({"VERIFY_RESIZE"}),
    "attach": frozenset({"ACTIVE", "SHUTOFF", "PAUSED"}),
    "detach": frozenset({"ACTIVE", "SHUTOFF", "PAUSED"}),
    "reset-active": STANDING,
    "reset-error": STANDING,
}
"""Action -> the statuses in which an idle server takes it. Source: Nova's API guide, server concepts; a server that is
SHELVED, on its host, also migrates and is evacuated."""
POWER = frozenset({"stop", "start", "pause", "unpause", "suspend", "resume", "reboot-soft", "reboot-hard", "rebuild"})


class View(NamedTuple):
    """What anybody can see of a server, and who is at work on it. move: of which kind, if one is not over.

    copying: a host is asked for a guest that takes over the memory of the one that runs. forced_down: an operator says
    that its host runs nothing. source_up: the host that it moved from is heard of; None: it may not reach
    the addresses of the server, since it is cabled otherwise or the move gave them.
    """

    status: str
    task_state: str | None
    stage: str | None
    move: str | None
    copying: bool
    guest_lost: bool
    host_down: bool
    locked: bool
    forced_down: bool = False
    source_up: bool | None = True


def expect(action: str, view: View | None, *, is_admin: bool = True) -> bool | None:
    """Return whether the action is accepted: True, False, or None where a table this naive cannot tell."""
    if view is None:
        return False
    if action in ("delete", "lock", "unlock"):
        return True
    if action in ("abort", "force"):
        stages = {"hold", "place", "copy"} if action == "abort" else {"copy"}
        under_way = view.move == "live-migration" and view.stage in stages
        return under_way and (view.copying if action == "force" else view.task_state != "deleting")
    if view.locked and not is_admin:
        return False
    if view.status == "ERROR" or view.guest_lost:
        return None
    if action in ("confirm", "revert"):
        waits = view.status == "VERIFY_RESIZE" and view.task_state is None and view.stage is None
        return waits and (action == "confirm" or view.source_up)
    if action == "evacuate" and view.task_state != "deleting":
        idle = view.move is None and view.stage is None
        return idle and view.forced_down and view.status in ALLOWED[action]
    if action == "reboot-hard" and view.task_state is not None:
        return None
    if action.startswith("reset") and view.task_state is not None:
        return None
    if view.task_state is not None or view.move is not None:
        return False
    if view.stage is not None and not (view.stage == "settle" and action in POWER):
        return False
    return view.status in ALLOWED[action]


RESERVED = frozenset({"place", "allocate", "bind", "ask", "launch", "retry"})
"""Stages of a build that holds its ports: nobody changes them meanwhile, but they can be deleted."""
UNCLEAR = frozenset({"create_ports", "settle", "fail", "delete", "late"})
"""Stages of a build in which it begins or ends to hold its ports; late: any, where agents make them."""


class PortView(NamedTuple):
    """What anybody can see of a port: stages are those of builds that want it; macs_taken are its neighbours'."""

    bound: bool
    stages: frozenset[str]
    macs_taken: frozenset[str]


def expect_port(action: str, view: PortView | None, *, mac: str = "") -> bool | None:
    """Return whether a change of a port is accepted; None where a table this naive cannot tell. mac: that it asks."""
    if view is None:
        return False
    if action == "delete":
        return True
    if view.stages & UNCLEAR:
        return None
    if view.stages & RESERVED:
        return False
    return not (action == "change MAC" and (view.bound or mac in view.macs_taken))


class PoolsView(NamedTuple):
    """What anybody can see of a provider whose pools are to change.

    held: addresses that keep a subnet from its delete. promised: claims that have no address yet: of builds, of ports
    that are being made, of who died. leaving: claims on their way back. lost: free addresses that the change takes;
    kept: those that it leaves.
    """

    held: int = 0
    promised: int = 0
    leaving: int = 0
    lost: int = 0
    kept: int = 0


def expect_pools(view: PoolsView) -> bool | None:
    """Return whether a change of pools is done; None where a build may keep a claim that is on its way back."""
    if view.held:
        return False
    if not view.lost or view.promised + view.leaving <= view.kept:
        return True
    return False if view.promised > view.kept else None
