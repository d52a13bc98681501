"""Says why no host was found, in one sentence that an operator can act on, with the funnel behind it."""

from collections.abc import Mapping

from roost.scheduling.request import Request
from roost.seams.placement import IPV4_ADDRESS, Funnel

Usages = Mapping[str, Mapping[str, tuple[int, int]]]
"""Provider UUID -> resource class -> (capacity, used)."""


def explain(request: Request, funnel: Funnel | None, usages: Usages) -> str:
    """The sentence: hosts considered, how many each requirement left, and the free addresses of each segment."""
    if request.impossible is not None:
        return f"No valid host was found: {request.impossible}."
    steps = funnel.steps if funnel else ()
    parts = []
    if steps:
        considered = steps[0][1]
        parts.append(f"{considered} {'host' if considered == 1 else 'hosts'} considered")
        parts += [f"{left} left by {requirement}" for requirement, left in steps[1:]]
    if request.excluded_hosts:
        parts.append(f"not counting {', '.join(sorted(request.excluded_hosts))}, where it failed before")
    reason = "No valid host was found: " + (", ".join(parts) or "no host has what was asked for")
    addresses = _addresses(request, usages)
    return f"{reason}. {addresses}" if addresses else f"{reason}."


def addresses_asked(request: Request) -> list[str]:
    """The providers whose use `explain` needs to know."""
    return sorted(
        {segment.provider_uuid for nic in request.nics if nic.needs_address for segment in nic.network.segments}
    )


def _addresses(request: Request, usages: Usages) -> str:
    sentences = []
    for network in {nic.network.id: nic.network for nic in request.nics if nic.needs_address}.values():
        counts = []
        for segment in sorted(network.segments, key=lambda segment: segment.name):
            capacity, used = usages.get(segment.provider_uuid, {}).get(IPV4_ADDRESS, (0, 0))
            counts.append((segment.name, capacity, used))
        free = sum(max(capacity - used, 0) for _name, capacity, used in counts)
        listed = ", ".join(f"{name} {max(capacity - used, 0)} of {capacity} free" for name, capacity, used in counts)
        head = f"The addresses of network {network.name} ran out" if free == 0 else f"Addresses of {network.name}"
        sentences.append(f"{head}: {listed}.")
    return " ".join(sentences)
