"""Tells systemd that a service of `Type=notify` is there, or is about to end. Source: sd_notify(3)."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send a state such as READY=1 to whoever started this process and wants to know; else do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
        notifying.connect(address)
        notifying.sendall(state.encode())
