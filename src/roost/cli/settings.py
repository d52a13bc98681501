"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from roost.compute.settings import UPSTREAM_QUOTAS as COMPUTE_QUOTAS
from roost.compute.settings import ComputeSettings
from roost.conductor.settings import ConductorSettings
from roost.network.settings import UPSTREAM_QUOTAS as NETWORK_QUOTAS
from roost.network.settings import NetworkSettings
from roost.placement.settings import PlacementSettings
from roost.platform.config import ConfigPath, read_config, read_secret
from roost.platform.errors import BadRequest
from roost.platform.quotas import fill_in
from roost.platform.settings import (
    ApiSettings,
    CorsSettings,
    KeystoneSettings,
    ListenerSettings,
    LogSettings,
    MetricsSettings,
    NeutronSettings,
    NotificationSettings,
    PlacementClientSettings,
    ProxySettings,
)
from roost.scheduling.settings import SchedulingSettings

DEFAULT_CONFIG = Path("/etc/roost/roost.toml")

Config = Sequence[Path | str] | Path | str | None
"""What --config names: files, and folders of files. None: nothing, so DEFAULT_CONFIG, if there is one."""


class ServeSettings(Struct, frozen=True, kw_only=True):
    """The section `[serve]` of roost.toml: options of `roost serve` by their names, where the command line has none.

    workers: 0 for as many as there are cores (supervisor.py). policy: a name of PRESETS, or a file.
    """

    services: tuple[str, ...] = ("all",)
    listen: str = "127.0.0.1:8778"
    agent_listen: str = ""
    metrics_listen: str = ""
    workers: Annotated[int, Meta(ge=0, le=64)] = 0
    agent_workers: Annotated[int, Meta(ge=1, le=64)] = 1
    conductors: Annotated[int, Meta(ge=1, le=64)] = 1
    auth: Literal["none", "noauth2", "keystone"] = "none"
    insecure_auth: bool = False
    policy: str = ""
    tls_cert: ConfigPath = ""
    tls_key: ConfigPath = ""
    agent_ca: ConfigPath = ""
    with_neutron: bool = False


class DatabaseSettings(Struct, frozen=True, kw_only=True):
    """The section `[database]` of roost.toml: which PostgreSQL; without any option, the private one in ./roost.

    url_file: a file that has the address, and nothing else. data_dir, pg_bin: of a private one.
    """

    url: str = ""
    url_file: ConfigPath = ""
    data_dir: ConfigPath = ""
    pg_bin: ConfigPath = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot work. No message shows an address, which may have a password in it."""
        if self.url and self.url_file:
            raise ValueError("url and url_file: expected one of them")
        if (self.url or self.url_file) and (self.data_dir or self.pg_bin):
            raise ValueError("url brings its own PostgreSQL: leave out data_dir and pg_bin")
        if self.url and not self.url.startswith(("postgresql://", "postgres://")):
            raise ValueError("url: expected an address: postgresql://user:password@host/name")

    def read_url(self) -> str | None:
        """Return the address of the PostgreSQL; None for a private one. Raises BadRequest."""
        if not self.url_file:
            return self.url or None
        url = read_secret(self.url_file, option="[database] url_file")
        if not url.startswith(("postgresql://", "postgres://")):
            raise BadRequest(
                f"[database] url_file {self.url_file}: expected postgresql://user:password@host/name in it"
            )
        return url


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    serve: ServeSettings
    database: DatabaseSettings
    placement: PlacementSettings
    placement_client: PlacementClientSettings
    neutron: NeutronSettings
    network: NetworkSettings
    compute: ComputeSettings
    conductor: ConductorSettings
    scheduling: SchedulingSettings
    api: ApiSettings
    listeners: ListenerSettings
    log: LogSettings
    metrics: MetricsSettings
    keystone: KeystoneSettings
    proxy: ProxySettings
    cors: CorsSettings
    notifications: NotificationSettings

    @property
    def has_keystone(self) -> bool:
        """Return whether Keystone knows who calls, as far as files and environment say: `--auth` may say otherwise."""
        return self.serve.auth == "keystone" or bool(self.keystone.auth_url)

    def with_quotas(self, *, keystone: bool) -> "Settings":
        """Return the same with the default quotas in force. keystone: it knows who calls, so no caller is everybody."""
        if not keystone:
            return self
        network, compute = fill_in(self.network, NETWORK_QUOTAS), fill_in(self.compute, COMPUTE_QUOTAS)
        return replace(self, network=network, compute=compute)


def sources_of(config: Config) -> tuple[Path, ...]:
    """Return the files and folders of --config; DEFAULT_CONFIG, if there is one, where none is named."""
    if config is None:
        return (DEFAULT_CONFIG,) if os.path.exists(DEFAULT_CONFIG) else ()
    return (Path(config),) if isinstance(config, str | Path) else tuple(map(Path, config))


def read_settings(config: Config, *, placement_url: str | None = None) -> Settings:
    """Return the configuration from files and the environment. Raises BadRequest, which names the option.

    placement_url: of --placement-url, instead of the one in `[placement_client]`.
    """
    settings = read_config(Settings, sources=sources_of(config), environment=os.environ)
    if placement_url is None:
        return settings
    return replace(settings, placement_client=replace(settings.placement_client, url=placement_url))
