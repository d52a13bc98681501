"""What the child processes of `roost serve` are told to be: said by the supervisor, read by the child."""

from collections.abc import Sequence

from msgspec import Struct

from roost.platform.tls import ListenerTls

SERVICES = ("placement", "network", "compute", "conductor")
SCHEMAS = ("placement", "network", "compute")
"""Of the database: those services keep something."""


class Serving(Struct, frozen=True, kw_only=True):
    """What is served, where and to whom: said by the command line, and by the supervisor to its children.

    services: of SERVICES. host, port: the main listener; agent_host, agent_port: the agents'. config: the roost.toml.
    auth, policy: access_words.py. tls: None for listeners that speak http.
    """

    services: tuple[str, ...]
    host: str
    port: int
    agent_host: str
    agent_port: int
    config: str | None = None
    auth: str = "none"
    policy: str | None = None
    tls: ListenerTls | None = None


class ProcessConfig(Serving, frozen=True, kw_only=True):
    """What the supervisor tells a child.

    role: api, agent-api, conductor or reconciler. pool_size: database connections. metrics_dir: telemetry.py.
    """

    role: str
    number: int
    dsn: str
    pool_size: int
    metrics_dir: str | None = None

    @property
    def name(self) -> str:
        """What logs and metrics call it."""
        return f"{self.role}-{self.number}"


def is_placement_alone(services: Sequence[str]) -> bool:
    """Whether nothing but the ledger is served: it knows nothing of networks, servers and hosts."""
    return tuple(services) == ("placement",)
