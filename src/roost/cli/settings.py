"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.settings import ComputeSettings
from roost.conductor.settings import ConductorSettings
from roost.network.settings import NetworkSettings
from roost.placement.settings import PlacementSettings
from roost.platform.config import read_config
from roost.platform.settings import (
    ApiSettings,
    CorsSettings,
    KeystoneSettings,
    ListenerSettings,
    LogSettings,
    NeutronSettings,
    NotificationSettings,
    PlacementClientSettings,
    ProxySettings,
)
from roost.scheduling.settings import SchedulingSettings


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

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
    keystone: KeystoneSettings
    proxy: ProxySettings
    cors: CorsSettings
    notifications: NotificationSettings


def read_settings(file: Path | str | None, *, placement_url: str | None = None) -> Settings:
    """Return the configuration from `file` and the environment. Raises BadRequest, which names the option.

    placement_url: of --placement-url, instead of the one in `[placement_client]`.
    """
    settings = read_config(Settings, file=None if file is None else Path(file), environment=os.environ)
    if placement_url is None:
        return settings
    return replace(settings, placement_client=replace(settings.placement_client, url=placement_url))
