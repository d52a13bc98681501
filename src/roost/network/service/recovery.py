"""Gives no client an address while hosts may have guests with addresses that nobody here knows."""

from datetime import timedelta

from roost.network.errors import AddressesWithheld
from roost.network.service import Networks

LOOK_AGAIN = timedelta(seconds=1)
"""How old the answer of the compute service may be. Without it, each port would cost another question."""


async def refuse_while_recovering(networks: Networks) -> None:
    """Raise AddressesWithheld while the compute service recovers records that went back in time."""
    now = networks.env.now()
    asked_at, reason = networks.recovery_seen
    if asked_at is None or not asked_at <= now < asked_at + LOOK_AGAIN:
        reason = await networks.compute.tell_recovery()
        networks.recovery_seen = now, reason
    if reason is not None:
        raise AddressesWithheld(f"no address is given to anyone now: {reason}")
