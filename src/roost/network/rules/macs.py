"""Reads MAC addresses as clients write them, and makes those of ports that come without one."""

import re
from random import Random

from roost.network.errors import InvalidInput

PREFIX = "fa:16:3e"


def canonical_mac(text: str) -> str:
    """Return the address in lower case with colons. Raises InvalidInput."""
    mac = text.lower().replace("-", ":")
    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac) or int(mac[:2], 16) & 1:
        raise InvalidInput(f"mac_address '{text}': expected a unicast address like fa:16:3e:00:00:01.")
    return mac


def new_mac(random: Random) -> str:
    """Return one of 2^24 addresses below OpenStack's usual prefix. The insert shows whether its network has it."""
    digits = random.getrandbits(24).to_bytes(3, "big").hex()
    return f"{PREFIX}:{digits[:2]}:{digits[2:4]}:{digits[4:]}"
