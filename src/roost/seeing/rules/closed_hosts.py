"""Says why a host is closed to new servers, and what opens it."""

from roost.compute.model.cloud import Host


def why_closed(host: Host | None) -> str:
    """Return the word for its state. host: None where its provider is no host's that Roost knows."""
    return "closed" if host is None else _tell(host)[0]


def how_to_open(host: Host | None, name: str) -> str:
    """Return what to do, in the imperative, without a point at its end."""
    return f"open host {name}" if host is None else _tell(host)[1]


def _tell(host: Host) -> tuple[str, str]:
    name = host.name
    if host.waiting:
        return "waits to be accepted", f"accept host {name} (roost-manage host accept)"
    if host.disabled:
        reason = f" ({host.disabled_reason})" if host.disabled_reason else ""
        return f"disabled{reason}", f"enable host {name}"
    if host.forced_down:
        return "forced down", f"set forced_down of host {name} to false"
    if host.down:
        return "down", f"start the agent of host {name}"
    if host.cell_silent:
        return f"in cell {host.cell}, whose conductors are gone", f"start a conductor of cell {host.cell}"
    if host.too_old:
        return "with too old an agent", f"update the agent of host {name}"
    if host.idle:
        return "idle: it began no launch", f"look why the agent of host {name} begins no launch"
    return "closed", f"open host {name}"
