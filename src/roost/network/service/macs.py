"""MAC addresses: new ones for ports without, and the canonical form of those that clients write."""

import random
import re

from roost.network.errors import InvalidInput

PREFIX = "fa:16:3e"


def new_mac(chance: random.Random) -> str:
    """Return one of 2^24 addresses below OpenStack's usual prefix. The insert shows whether its network has it."""
    digits = chance.getrandbits(24).to_bytes(3, "big").hex()
    return f"{PREFIX}:{digits[:2]}:{digits[2:4]}:{digits[4:]}"


def canonical_mac(text: str) -> str:
    """Return the address in lower case with colons. Raises InvalidInput."""
    mac = text.lower().replace("-", ":")
    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac) or int(mac[:2], 16) & 1:
        raise InvalidInput(f"mac_address '{text}': expected a unicast address like fa:16:3e:00:00:01.")
    return mac
