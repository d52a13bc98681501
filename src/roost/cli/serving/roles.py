"""What `roost serve` and its child processes do, as options. All of them import it, so it imports little."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from roost.platform.errors import BadRequest
from roost.platform.settings import LogSettings
from roost.platform.tls import ListenerTls

SERVICES = ("placement", "network", "compute", "conductor")
SCHEMAS = ("placement", "network", "compute", "seeing")
"""Of the database: those services keep something, and the operator's side."""

AUTHS = ("none", "noauth2", "keystone")
PRESETS: Mapping[str, bool] = {
    "default": False,
    "legacy-rbac": False,
    "secure-rbac": True,
    "open": False,
    "cors": False,
}
"""What --policy takes besides a file -> enforce_new_defaults. `open` and `cors` change other things too (access.py)."""


class Serving(Struct, frozen=True, kw_only=True):
    """What is served, where and to whom: the command line, the supervisor and its children share it.

    services: of SERVICES. host, port: the main listener; agent_host, agent_port: the agents'. metrics_host,
    metrics_port: the metrics'; no host: there is none. config: files, folders. auth: of AUTHS. policy: a name of
    PRESETS, or a file. tls: None for listeners that speak http. placement_url: the Placement service to use instead of
    the ledger next door; None: as `[placement_client]` says. cells: whose servers the conductors carry on with; none:
    as roost.toml says. log: the section [log] as the command line has it; log_level: the level that it says, "" for
    none. with_neutron: the ledger is kept in agreement with the Neutron of `[neutron]`.
    """

    services: tuple[str, ...]
    host: str
    port: int
    agent_host: str
    agent_port: int
    metrics_host: str = ""
    metrics_port: int = 0
    config: tuple[str, ...] = ()
    auth: str = "none"
    policy: str | None = None
    tls: ListenerTls | None = None
    placement_url: str | None = None
    cells: tuple[str, ...] = ()
    log: LogSettings = LogSettings()
    log_level: str = ""
    with_neutron: bool = False


class ProcessConfig(Serving, frozen=True, kw_only=True):
    """What a child process does.

    role: api, agent-api, conductor or reconciler. pool_size: database connections. metrics_dir: telemetry.py.
    metrics_host: of the one process of a server that serves them, "" in all others. restarted: the one before it died.
    """

    role: str
    number: int
    dsn: str
    pool_size: int
    metrics_dir: str | None = None
    restarted: bool = False

    @property
    def name(self) -> str:
        """Return what logs and metrics call it."""
        return f"{self.role}-{self.number}"


def is_placement_alone(services: Sequence[str]) -> bool:
    """Return whether nothing but the ledger is served: it knows nothing of networks, servers and hosts."""
    return tuple(services) == ("placement",)


def check_policy_word(word: str) -> str:
    """Return a name of PRESETS as it is, a file as its absolute path. Raises BadRequest for neither."""
    if word in PRESETS:
        return word
    file = Path(word)
    if not file.is_file():
        raise BadRequest(f"no file {word}: expected {', '.join(PRESETS)}, or a policy file")
    return str(file.absolute())
