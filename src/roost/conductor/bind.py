"""The stages `bind` and `ask`: ports get their host and address, and the host is asked to launch the server.

`ask` comes instead of `bind` in builds that began while agents bound ports; where they still do, see `old_agents.py`.
"""

from collections.abc import Mapping, Sequence, Set

from roost.compute.model.work import MoveKind, Placed, ServerChange, Stage, StageChange
from roost.conductor.context import Build, Lease, given_up, sent_elsewhere, staged
from roost.conductor.holdings import moved_server
from roost.conductor.launches import begin_wait_s
from roost.conductor.ports import ensure_ports, ports_held
from roost.platform.crash import crash_point
from roost.seams.compute import ServerPort
from roost.seams.network import BindRefused, Bound, NetworkView, Port, PortBind
from roost.seams.placement import IPV4_ADDRESS


async def bind(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Bind every port, and send the servers to their hosts; a refused bind sends a server back to `place`.

    A refusal is no attempt where the port changed since the server was placed.
    """
    ports, changes = await read_ports(lease, builds)
    builds_with_ports = [(build, ports[build.work.server_id]) for build in builds if build.work.server_id in ports]
    networks = await get_networks_of(lease, ports)
    binds = [bind for build, ports_known in builds_with_ports for bind in _binds(build, ports_known)]
    crash_point("bind.before-bind")
    leaving_ids = {port_id for build, ports_known in builds_with_ports for port_id in _ids_leaving(build, ports_known)}
    answers = await _bind_all(lease, binds, leaving_ids)
    crash_point("bind.after-bind")
    for build, ports_known in builds_with_ports:
        changes.append(_launch(build, ports_known, [answers[port.id] for port in ports_known], networks, lease))
    crash_point("launch.before-desire")
    advanced = await lease.advance(builds, changes, ports=ports)
    crash_point("launch.after-desire")
    return advanced.going_on


async def ask(lease: Lease, builds: Sequence[Build]) -> list[Build]:
    """Have the hosts' agents make and bind ports; where none may, place the servers as any others, and bind."""
    if lease.conductor.old_agents is not None:
        return await lease.conductor.old_agents.ask(lease, builds)
    # Who placed a server in an earlier lease may have left the claims of its addresses to the agent.
    again = [build for build in builds if build.ports is None]
    changes = [staged(build.work, Stage.PLACE, keep=True) for build in again]
    going_on = (await lease.advance(again, changes)).going_on if again else []
    placed = [build for build in builds if build.ports is not None]
    return going_on + (await bind(lease, placed) if placed else [])


async def read_ports(lease: Lease, builds: Sequence[Build]) -> tuple[dict[str, tuple[Port, ...]], list[StageChange]]:
    """Return the ports, read again where this lease does not know them, and changes that end servers without any."""
    known = {build.work.server_id: build.ports for build in builds if build.ports is not None}
    again = [build for build in builds if build.ports is None]
    ports, changes = await ports_held(lease, again, await ensure_ports(lease, again) if again else [])
    return known | ports, changes


async def get_networks_of(lease: Lease, ports: Mapping[str, Sequence[Port]]) -> Mapping[str, NetworkView]:
    """Return the networks of the ports, by id. ports: by server id."""
    network_ids = {port.network_id for ports_known in ports.values() for port in ports_known}
    return await lease.conductor.network.get_networks(sorted(network_ids))


async def _bind_all(lease: Lease, binds: Sequence[PortBind], leaving_ids: Set[str]) -> dict[str, Bound | BindRefused]:
    """Bind the ports, those that leave their addresses with the new ones; return the answers by port id."""
    leaving = [bind for bind in binds if bind.port_id in leaving_ids]
    staying = [bind for bind in binds if bind.port_id not in leaving_ids]
    answers = await lease.conductor.network.bind_ports(staying) if staying else []
    answers += await lease.conductor.moves.readdress_ports(leaving) if leaving else []
    return {answer.port_id: answer for answer in answers}


def _ids_leaving(build: Build, ports: Sequence[Port]) -> set[str]:
    """Return the ports that still have the addresses that they are to leave."""
    assert build.work.placed is not None, "place comes before bind"
    addresses_left = build.work.placed.addresses_left
    return {port.id for port in ports if port.addresses and addresses_left.get(port.id) == port.addresses}


def _note(placed: Placed, answers: Sequence[Bound | BindRefused]) -> str | None:
    """Return which addresses were exchanged for which; None for none."""
    exchanged = [
        f"port {answer.port_id}: {', '.join(placed.addresses_left[answer.port_id])} -> {', '.join(answer.addresses)}"
        for answer in answers
        if isinstance(answer, Bound) and answer.port_id in placed.addresses_left
    ]
    return "; ".join(exchanged) or None


def _binds(build: Build, ports: Sequence[Port]) -> list[PortBind]:
    placed = build.work.placed
    assert placed is not None, "place comes before bind"
    return [
        PortBind(
            port_id=port.id,
            server_id=build.work.server_id,
            host=placed.host,
            provider_uuid=placed.providers_by_port.get(port.id),
            revision=port.revision,
            claimed=placed.classes_by_port.get(port.id, (IPV4_ADDRESS,)),
            fixed_ip=port.fixed_ip,
        )
        for port in ports
    ]


def _launch(
    build: Build,
    ports: Sequence[Port],
    answers: Sequence[Bound | BindRefused],
    networks: Mapping[str, NetworkView],
    lease: Lease,
) -> StageChange:
    work = build.work
    placed = work.placed
    assert placed is not None, "place comes before bind"
    refused = [answer for answer in answers if isinstance(answer, BindRefused)]
    message = f"a port could not be bound on {placed.host}: {refused[0].reason}" if refused else ""
    if refused and work.move is not None and work.move.kind is MoveKind.LIVE:
        # Not to `place`, for its guest is claimed here. What only changed is looked at again; a port that has lost its
        # address is given none on the way.
        lost = [port.id for port in ports if port.needs_address and port.id not in placed.providers_by_port]
        changed = all(answer.changed for answer in refused) and not lost
        return staged(work, Stage.BIND) if changed else given_up(work, message, host=placed.host)
    if refused and all(answer.changed for answer in refused):
        # A conductor that lost its lease changed it after this one had looked: the host did not fail, so look again.
        return staged(work, Stage.PLACE)
    if refused:
        return sent_elsewhere(work, message, host=placed.host)
    info = [
        port_information(build, port, networks, answer)
        for port, answer in zip(ports, answers, strict=True)
        if isinstance(answer, Bound)
    ]
    return ask_host(build, info, lease, note=_note(placed, answers))


def ask_host(build: Build, info: Sequence[ServerPort], lease: Lease, *, note: str | None = None) -> StageChange:
    """Return the change by which the host that was chosen is asked for the guest, with these ports."""
    work = build.work
    placed = work.placed
    assert placed is not None, "place comes before bind"
    delay_s = begin_wait_s(lease.conductor.settings)
    server = ServerChange(status="BUILD", task_state="spawning", host=placed.host, network_info=tuple(info))
    if work.move is not None:
        server = moved_server(work.move, server)
        if work.move.kind is MoveKind.LIVE:
            # Its guest is there, with its NICs down.
            guests_wanted = {placed.host: work.move.plan.power_wanted}
            return staged(work, Stage.LAUNCH, guests_wanted=guests_wanted, delay_s=delay_s, server=server)
    return staged(
        work,
        Stage.LAUNCH,
        attempt=work.attempt_next,
        guest_host=placed.host,
        desired="running" if work.move is None else work.move.plan.power_wanted,
        delay_s=delay_s,
        server=server,
        note=note,
    )


def port_information(build: Build, port: Port, networks: Mapping[str, NetworkView], bound: Bound) -> ServerPort:
    """Return what the host is told of a port that is bound to it."""
    work = build.work
    is_of_nic = any(nic.port_id_of(work.server_id) == port.id for nic in work.spec.nics)
    maker = work.stages.port_maker if is_of_nic else "roost"
    segment_claimed = work.placed.providers_by_port.get(port.id) if work.placed else None
    return ServerPort(
        port_id=None if port.pools else port.id,
        tag=port.tag,
        network_id=port.network_id,
        network_name=networks[port.network_id].name,
        mac_address=port.mac_address,
        addresses=bound.addresses,
        preserve_on_delete=port.preserve_on_delete,
        segment=segment_claimed or port.provider_uuid,
        created_by="user" if port.preserve_on_delete else maker,
        revision=bound.revision,
    )
