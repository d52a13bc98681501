"""Reads MAC addresses as clients write them."""

import re

from roost.network.errors import InvalidInput


def canonical_mac(text: str) -> str:
    """Return the address in lower case with colons. Raises InvalidInput."""
    mac = text.lower().replace("-", ":")
    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac) or int(mac[:2], 16) & 1:
        raise InvalidInput(f"mac_address '{text}': expected a unicast address like fa:16:3e:00:00:01.")
    return mac
