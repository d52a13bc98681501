"""What is held for a move while it is under way, and what becomes of servers and moves at its end."""

from collections.abc import Mapping

from msgspec.structs import replace

from roost.compute.model.work import Move, MoveKind, ServerChange, Work
from roost.seams.placement import IPV4_ADDRESS, Allocations, ConsumerClaim, ConsumerState, ConsumerType

ENDED = {
    MoveKind.MIGRATE: "finished",
    MoveKind.RESIZE: "finished",
    MoveKind.LIVE: "completed",
    MoveKind.EVACUATE: "done",
    MoveKind.SHELVE: "done",
    MoveKind.UNSHELVE: "done",
}
"""The status of a move of which the server is on its destination. Source: Nova, objects/migration.py."""

TASK_STATES = {
    MoveKind.MIGRATE: "resize_finish",
    MoveKind.RESIZE: "resize_finish",
    MoveKind.LIVE: "migrating",
    MoveKind.EVACUATE: "rebuild_spawning",
    MoveKind.UNSHELVE: "spawning",
}
"""What a server is doing while its guest is made on the destination. Source: Nova, compute/task_states.py."""

RESTORING = TASK_STATES | {
    MoveKind.MIGRATE: "resize_reverting",
    MoveKind.RESIZE: "resize_reverting",
    MoveKind.SHELVE: "shelving",
}
"""What a server is doing while it is taken back to its source."""

CONFIRMED_KINDS = (MoveKind.MIGRATE, MoveKind.RESIZE)
"""Moves that wait for their user at their end."""


def host_part(allocations: Allocations) -> dict[str, Mapping[str, int]]:
    """Return what a server's claim is but for addresses of flat networks, which stay the server's wherever it goes."""
    return {uuid: resources for uuid, resources in allocations.items() if set(resources) != {IPV4_ADDRESS}}


def address_part(allocations: Allocations) -> dict[str, Mapping[str, int]]:
    """Return the addresses of flat networks that a server claims itself."""
    return {uuid: resources for uuid, resources in allocations.items() if set(resources) == {IPV4_ADDRESS}}


def claim_of(
    work: Work, uuid: str, kind: ConsumerType, state: ConsumerState | None, allocations: Allocations
) -> ConsumerClaim:
    """Return the claim with which a consumer of the server's holds this, unless it changed since it was read.

    uuid: the server's, its move's or a port's. state: as it was read; None where there was none.
    """
    return ConsumerClaim(
        consumer_uuid=uuid,
        generation=state.generation if state else None,
        consumer_type=kind.value,
        project_id=work.project_id,
        user_id=work.user_id,
        allocations=allocations,
    )


def held_by_move(move: Move, wanted: Allocations) -> dict[str, dict[str, int]]:
    """Return what the move holds of the source while the server claims `wanted`.

    On another host that is all that the server had there; on the same one what it had more than it wants, so that the
    sum of both is enough to go on and to go back.
    """
    assert move.plan.held is not None, "hold comes before place"
    allocations_held = {}
    for provider_uuid, resources in move.plan.held.items():
        also = wanted.get(provider_uuid, {})
        rest = {name: amount - also.get(name, 0) for name, amount in resources.items() if amount > also.get(name, 0)}
        if rest:
            allocations_held[provider_uuid] = rest
    return allocations_held


def moved_server(move: Move, built: ServerChange) -> ServerChange:
    """Return what is written on a server whose ports are on the destination, where a build would write `built`."""
    return replace(
        built,
        status="SHELVED_OFFLOADED" if move.kind is MoveKind.UNSHELVE else "ACTIVE",
        task_state=TASK_STATES[move.kind],
        flavor=move.plan.flavor,
        spec=move.plan.spec,
    )
