"""Which addresses are this machine's alone; imported by commands, which shall start quickly."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address; of names only localhost is known to be one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
