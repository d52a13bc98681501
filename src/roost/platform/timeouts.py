"""How long one session may hold up the others, and how soon a dead peer is noticed: all derived from the lease.

Nobody shall wait longer than the lease and 5 s for a process that is stopped, cut off or gone, yet work that takes
long shall come to its end. So what is limited is not the length of a transaction but its idleness: who holds locks
and asks for nothing has half a lease and 2 s. Two such processes, one of which waited for the other, make lease + 4 s
(R23).
"""

import os
import socket
from collections.abc import Mapping

from msgspec import Struct

LEASE_S = 30.0
"""Where no configuration is read: the default of `[conductor] lease_s`."""
STATEMENT_S = 60.0
"""No single statement of Roost takes so long, whatever its transaction takes."""
KEEPALIVE_PROBES = 3
CONNECTION_CHECKS = 15
"""So often in a lease the server looks whether the client of a running statement is still connected."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """idle_s: between two statements of a transaction. lock_s: waiting for one lock. dead_peer_s: without an answer."""

    idle_s: float
    lock_s: float
    statement_s: float
    dead_peer_s: float
    connection_check_s: float

    @classmethod
    def of_lease(cls, lease_s: float) -> "Timeouts":
        """Derive all from how long a conductor that died may hold its servers up."""
        return cls(
            idle_s=lease_s / 2 + 2,
            lock_s=lease_s + 5,
            statement_s=max(STATEMENT_S, lease_s + 10),
            dead_peer_s=max(4.0, lease_s / 2),
            connection_check_s=lease_s / CONNECTION_CHECKS,
        )

    @property
    def keepalive_idle_s(self) -> int:
        """Return whole seconds of silence before the first probe; the probes then take as long again."""
        return max(1, round(self.dead_peer_s / 2))

    @property
    def keepalive_interval_s(self) -> int:
        """Return whole seconds between two probes."""
        return max(1, round(self.dead_peer_s / 2 / KEEPALIVE_PROBES))

    def idle_settings(self) -> Mapping[str, str]:
        """Return what PostgreSQL is told in every session, migrations included. Source: PostgreSQL 15, chapter 20."""
        return {
            "idle_in_transaction_session_timeout": _milliseconds(self.idle_s),
            "client_connection_check_interval": _milliseconds(self.connection_check_s),
            "tcp_keepalives_idle": str(self.keepalive_idle_s),
            "tcp_keepalives_interval": str(self.keepalive_interval_s),
            "tcp_keepalives_count": str(KEEPALIVE_PROBES),
            "tcp_user_timeout": _milliseconds(self.dead_peer_s),
        }

    def session_settings(self) -> Mapping[str, str]:
        """Return what PostgreSQL is told in sessions whose statements are all short."""
        return {
            **self.idle_settings(),
            "lock_timeout": _milliseconds(self.lock_s),
            "statement_timeout": _milliseconds(self.statement_s),
        }

    def watch_peer(self, descriptor: int) -> None:
        """Set this machine's kernel to notice, too, that the other end of a TCP connection is gone."""
        with socket.socket(fileno=os.dup(descriptor)) as peer:
            if peer.family == socket.AF_UNIX:
                return
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (
                ("TCP_KEEPIDLE", self.keepalive_idle_s),
                ("TCP_KEEPINTVL", self.keepalive_interval_s),
                ("TCP_KEEPCNT", KEEPALIVE_PROBES),
                ("TCP_USER_TIMEOUT", round(self.dead_peer_s * 1000)),
            ):
                if hasattr(socket, name):  # not every system has all of them
                    peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))
