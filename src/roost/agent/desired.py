"""What an agent does about its orders: pure decisions, from the orders, what runs and what is being worked on."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from roost.seams.agent import GuestKey, GuestOrder, ListedGuest, OrderId


@dataclass(frozen=True)
class Actions:
    """What to do now. launch: begin and build. change: have a guest that is there in another state, or have it send
    what it has. confirm: it is as it should be, say so. destroy: have it gone, say so.

    interrupt: guests whose launch is at work and no longer wanted: they are to go, or a later attempt is in force.
    hurry: have the launch that is at work take over the memory now.
    """

    launch: list[GuestOrder] = field(default_factory=list)
    change: list[GuestOrder] = field(default_factory=list)
    confirm: list[GuestOrder] = field(default_factory=list)
    destroy: list[GuestOrder] = field(default_factory=list)
    interrupt: list[GuestKey] = field(default_factory=list)
    hurry: list[GuestOrder] = field(default_factory=list)

    @property
    def none(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self.launch or self.change or self.confirm or self.destroy or self.hurry)


def decide_actions(
    orders: Iterable[GuestOrder],
    *,
    guests_by_key: Mapping[GuestKey, ListedGuest],
    busy: Collection[OrderId],
) -> Actions:
    """Turn orders into actions; one that is being worked on, or was overtaken by a later attempt, needs none.

    guests_by_key: those that are there. busy: the orders whose work has begun and whose outcome is not told yet.
    """
    actions = Actions()
    latest_by_guest: dict[GuestKey, int] = {}
    launching: set[GuestKey] = set()
    for known in busy:
        latest_by_guest[known.key] = max(known.attempt, latest_by_guest.get(known.key, 0))
        if known.desired != "absent":
            launching.add(known.key)
    for order in orders:
        key = order.key
        if order.id in busy or order.attempt < latest_by_guest.get(key, 0):
            continue
        if order.hurry and replace(order.id, hurry=False) in busy:
            actions.hurry.append(order)
            continue
        if key in launching:
            actions.interrupt.append(key)
        if order.desired == "absent":
            actions.destroy.append(order)
        elif (guest := guests_by_key.get(key)) is None or guest.attempt != order.attempt:
            actions.launch.append(order)
        elif guest.state != order.desired or order.meeting is not None:
            actions.change.append(order)
        else:
            actions.confirm.append(order)
    return actions
