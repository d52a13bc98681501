"""MAC addresses for ports that come without one."""

import random

PREFIX = "fa:16:3e"


def new_mac(chance: random.Random) -> str:
    """One of 2^24 addresses below OpenStack's usual prefix; whether it is free in its network shows on insert."""
    digits = chance.getrandbits(24).to_bytes(3, "big").hex()
    return f"{PREFIX}:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
