"""Which action a server takes in which state, and what is then desired of its guest. No I/O, no policy.

Source: Nova, compute/api.py, check_instance_state, check_instance_lock; compute/task_states.py, ALLOW_REBOOT; its texts
are those of api/openstack/common.py.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from roost.compute.model.cloud import Host
from roost.compute.model.server import ActionEvent, ActionFilter, Server, ServerAction
from roost.compute.model.work import BuildOrder, MoveKind, ServerContext, Stage
from roost.seams.network import UnreachedPort

QUIET: frozenset[str | None] = frozenset({None})
REBOOTABLE: frozenset[str | None] = QUIET | {
    *("rebooting", "reboot_pending", "reboot_started", "rebooting_hard"),
    *("resuming", "unpausing", "pausing", "suspending"),
}

ORDER_EVENT = "conductor_choose_order"
"""Roost's own event: in which order a server is built."""


class ActionRule(Struct, frozen=True, kw_only=True):
    """When an action may begin, and what begins with it.

    name: as os-instance-actions and refusals have it. vm_states, task_states: None for any. lockable:
    who owns a locked server may not. launched: the server must have been ACTIVE once. guest: its host must have its
    guest, or at least nothing left of it where it is made anew. while_settling, while_moving: it may begin before the
    last of a build is done, or before a move's end. desired: what the guest is to be. task_state: until it is so. anew:
    the guest is made again on its host. event: what the host does, as the event log names it.
    """

    name: str
    vm_states: frozenset[str] | None = None
    task_states: frozenset[str | None] | None = QUIET
    lockable: bool = True
    launched: bool = True
    guest: bool = True
    while_settling: bool = False
    while_moving: bool = False
    desired: str = ""
    task_state: str | None = None
    anew: bool = False
    event: str = ""


ACTIVE_ONLY = frozenset({"active"})


def _power(
    name: str,
    vm_states: frozenset[str],
    desired: str,
    task_state: str,
    *,
    task_states: frozenset[str | None] = QUIET,
    anew: bool = False,
) -> ActionRule:
    return ActionRule(
        name=name,
        vm_states=vm_states,
        task_states=task_states,
        while_settling=True,
        desired=desired,
        task_state=task_state,
        anew=anew,
        event=f"compute_{name}_instance",
    )


REBOOTED_HARD = frozenset({"active", "stopped", "paused", "suspended", "error"})
STOP = _power("stop", frozenset({"active", "error"}), "stopped", "powering-off")
START = _power("start", frozenset({"stopped"}), "running", "powering-on")
PAUSE = _power("pause", ACTIVE_ONLY, "paused", "pausing")
UNPAUSE = _power("unpause", frozenset({"paused"}), "running", "unpausing")
SUSPEND = _power("suspend", ACTIVE_ONLY, "suspended", "suspending")
RESUME = _power("resume", frozenset({"suspended"}), "running", "resuming")
REBOOT_SOFT = _power("reboot", ACTIVE_ONLY, "running", "rebooting", anew=True)
REBOOT_HARD = _power("reboot", REBOOTED_HARD, "running", "rebooting_hard", task_states=REBOOTABLE, anew=True)
REBUILD = _power("rebuild", frozenset({"active", "stopped", "error"}), "running", "rebuilding", anew=True)
RESET_STATE = ActionRule(name="resetState", task_states=None, lockable=False, launched=False, guest=False)

MOVABLE = frozenset({"active", "stopped"})
STANDING = MOVABLE | {"paused", "suspended"}

SHELVED = frozenset({"shelved"})
"""On their hosts, where their disks are: stopped to all but their users."""

MIGRATE = ActionRule(name="migrate", vm_states=MOVABLE | SHELVED)
RESIZE = ActionRule(name="resize", vm_states=MOVABLE)
CONFIRM = ActionRule(name="confirmResize", vm_states=frozenset({"resized"}), while_moving=True)
REVERT = ActionRule(name="revertResize", vm_states=frozenset({"resized"}), while_moving=True, guest=False)
LIVE_MIGRATE = ActionRule(name="live-migration", vm_states=frozenset({"active", "paused"}))
EVACUATE = ActionRule(name="evacuate", vm_states=STANDING | SHELVED | {"error"}, task_states=None, guest=False)
SHELVE = ActionRule(name="shelve", vm_states=STANDING)
SHELVE_IN_PLACE = _power("shelve", STANDING, "stopped", "shelving")
UNSHELVE = ActionRule(name="unshelve", vm_states=SHELVED | {"shelved_offloaded"}, guest=False)
UNSHELVE_IN_PLACE = _power("unshelve", SHELVED, "running", "unshelving")
ATTACH = ActionRule(name="attach_interface", vm_states=STANDING - {"suspended"})
DETACH = ActionRule(name="detach_interface", vm_states=STANDING - {"suspended"})

POWER_RULES = (STOP, START, PAUSE, UNPAUSE, SUSPEND, RESUME, REBOOT_SOFT, REBOOT_HARD, REBUILD)


def find_refusal(rule: ActionRule, server: Server, context: ServerContext, *, is_admin: bool) -> str | None:
    """Return why the action cannot begin, or None. A caller who is no administrator is held up by a lock."""
    if rule.lockable and server.locked and not is_admin:
        return locked_sentence(server.id)
    if rule.guest and server.vm_state != "building" and server.host is None:
        return not_ready_sentence(server.id)
    if rule.vm_states is not None and server.vm_state not in rule.vm_states:
        return state_sentence(server.id, rule.name, vm_state=server.vm_state)
    if server.task_state == "deleting" or (rule.task_states is not None and server.task_state not in rule.task_states):
        return state_sentence(server.id, rule.name, task_state=str(server.task_state))
    settling = rule.while_settling and context.stage is Stage.SETTLE
    at_work = context.stage is not None and not settling
    if at_work or (context.moving and not rule.while_moving) or (rule.launched and server.launched_at is None):
        return f"Instance {server.id} is in an invalid state for '{rule.name}'"
    if rule.guest and (context.power_desired == "absent" or (context.power_desired is None and not rule.anew)):
        return not_ready_sentence(server.id)
    if rule.guest and context.guest_lost and not rule.anew:
        way_out = f"{REVERT.name} brings it back" if rule.while_moving else "a hard reboot makes it again"
        return f"{not_ready_sentence(server.id)}: its guest is gone from its host, {way_out}"
    return None


def desired_power(rule: ActionRule, server: Server) -> str:
    """Return what the guest is to be: a server that is rebuilt while it is stopped stays so."""
    return "stopped" if rule is REBUILD and server.vm_state == "stopped" else rule.desired


def find_rule_in_place(kind: MoveKind, server: Server, context: ServerContext) -> ActionRule | None:
    """Return how a locked server is shelved, or unshelved, on its host; None where it moves.

    One with a root disk on its host stays there: the disk is nowhere else.
    """
    if kind is MoveKind.SHELVE and context.keeps_disks and server.spec.disk_gb > 0:
        return SHELVE_IN_PLACE
    return UNSHELVE_IN_PLACE if kind is MoveKind.UNSHELVE and server.vm_state in SHELVED else None


def refuse_offload(server: Server) -> str:
    """Return why the server is not taken off its host: it is on none, it is not shelved, or its disk would be lost."""
    if server.vm_state not in SHELVED:
        return state_sentence(server.id, "shelveOffload", vm_state=server.vm_state)
    return (
        f"Instance {server.id} is shelved on host {server.host}, which has its root disk: off its host it would lose "
        "the disk. Migrate it, and the disk leaves the host with it; or delete it, if the disk is worth nothing."
    )


def destination_sentence(server: Server) -> str:
    """Return the refusal to unshelve a server elsewhere that is on its host. Source: Nova, exception.py, its text."""
    return (
        "Specifying an availability zone or a host when unshelving server "
        f'"{server.id}" with status "{server.vm_state}" is not supported, server status must be SHELVED_OFFLOADED. '
        f"Host {server.host} has its root disk: unshelve it there, and migrate it then."
    )


def find_reset_refusal(server: Server, context: ServerContext, *, active: bool) -> str | None:
    """Return why the server cannot be made ACTIVE or ERROR by hand, or None: what runs nowhere is not ACTIVE."""
    if refusal := find_refusal(RESET_STATE, server, context, is_admin=True):
        return refusal
    if not active or (context.power_desired not in (None, "absent") and not context.guest_lost):
        return None
    return f"{not_ready_sentence(server.id)}: its host has no guest of it"


def find_fence_refusal(server_id: str, host: Host, *, of_former_agent: bool) -> str | None:
    """Return why the server of a host that is down must not be made elsewhere, or None: silence proves nothing.

    of_former_agent: the guest is not of the agent that promised, who promised nothing for it.
    """
    if host.forced_down or (host.promise_kept and not of_former_agent):
        return None
    refusal = f"Instance {server_id} may still run on host {host.name}, which is only silent"
    if host.fence_after_s is None or of_former_agent:
        return (
            f"{refusal}: once you know that it does not, force the host's service down. A host whose agent runs with "
            "--fence-after needs no such word."
        )
    return (
        f"{refusal}: its agent promised that its NICs are down {host.fence_after_s:g} s after its last lease, with a "
        "tenth of that to spare. Ask again then, or force the host's service down once you know that it does not run."
    )


def find_return_refusal(server_id: str, source: Host, unreached: Sequence[UnreachedPort]) -> str | None:
    """Return why the server cannot go back to the host that it moved from, or None."""
    if source.down:
        return f"Instance {server_id} cannot go back: host {source.name}, from which it came, is down."
    if unreached:
        sentences = " ".join(port.sentence() for port in unreached)
        return f"Instance {server_id} cannot go back: host {source.name} does not reach all its addresses. {sentences}"
    return None


def state_sentence(server_id: str, verb: str, **state: str) -> str:
    """Return the refusal of an action in a state: of `vm_state` or `task_state`."""
    ((name, value),) = state.items()
    return f"Cannot '{verb}' instance {server_id} while it is in {name} {value}"


def locked_sentence(server_id: str) -> str:
    """Return the refusal of what a locked server does not let its owner do."""
    return f"Instance {server_id} is locked"


def not_ready_sentence(server_id: str) -> str:
    """Return the refusal of what needs a guest."""
    return f"Instance {server_id} is not ready"


ATTRIBUTE_STATES = frozenset({"active", "paused", "suspended", "stopped"})
"""States in which metadata and tags change. Source: Nova, compute/api.py, update_instance_metadata."""


def find_attribute_refusal(server: Server, verb: str, *, may_be_locked: bool) -> str | None:
    """Return why metadata or tags cannot change now, or None."""
    if server.locked and not may_be_locked:
        return locked_sentence(server.id)
    if server.vm_state not in ATTRIBUTE_STATES:
        return state_sentence(server.id, verb, vm_state=server.vm_state)
    return None


def creation_of(server: Server) -> ServerAction | None:
    """Return the action that made the server, which is not recorded apart from it; None where nobody knows which."""
    if not server.request_id:
        return None
    failed = server.launched_at is None and server.status == "ERROR"
    ended_at = server.updated_at if failed else server.launched_at
    order = server.order
    chosen = () if order is None or order.chosen_at is None else (_choice(order, server.created_at),)
    event = ActionEvent(
        name="compute__do_build_and_run_instance",
        started_at=server.created_at,
        finished_at=ended_at,
        result=None if ended_at is None else "Error" if failed else "Success",
        host=server.host,
        details=server.fault.message if failed and server.fault else None,
    )
    return ServerAction(
        request_id=server.request_id,
        name="create",
        project_id=server.project_id,
        user_id=server.user_id,
        started_at=server.created_at,
        updated_at=ended_at or server.created_at,
        message="Error" if failed else None,
        events=(*chosen, event),
    )


def wait_for_cell(cell: str, since: datetime) -> ActionEvent:
    """Return the event of a server whose work waits for conductors of its host's cell."""
    return ActionEvent(
        name="conductor_wait_for_cell",
        started_at=since,
        details=f"no conductor of cell {cell} is there; one is started by `roost serve conductor --cell {cell}`",
    )


def _choice(order: BuildOrder, since: datetime) -> ActionEvent:
    """Return the event that says which order the build has, and why."""
    return ActionEvent(
        name=ORDER_EVENT,
        started_at=since,
        finished_at=order.chosen_at,
        result="Success",
        details=order.sentence(),
    )


def is_listed(action: ServerAction, only: ActionFilter) -> bool:
    """Return whether the action is one that a list asks for."""
    since, before = only.changed_since, only.changed_before
    return (since is None or action.updated_at >= since) and (before is None or action.updated_at <= before)
