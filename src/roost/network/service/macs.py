"""MAC addresses: made for ports that come without one."""

import random

PREFIX = "fa:16:3e"


def new_mac(chance: random.Random) -> str:
    """Return one of 2^24 addresses below OpenStack's usual prefix. The insert shows whether its network has it."""
    digits = chance.getrandbits(24).to_bytes(3, "big").hex()
    return f"{PREFIX}:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
