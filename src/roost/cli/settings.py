"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from pathlib import Path

from msgspec import Struct

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
    NeutronSettings,
    ProxySettings,
)
from roost.scheduling.settings import SchedulingSettings


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    placement: PlacementSettings
    neutron: NeutronSettings
    network: NetworkSettings
    compute: ComputeSettings
    conductor: ConductorSettings
    scheduling: SchedulingSettings
    api: ApiSettings
    listeners: ListenerSettings
    keystone: KeystoneSettings
    proxy: ProxySettings
    cors: CorsSettings


def read_settings(file: Path | str | None) -> Settings:
    """Return the configuration from `file` and the environment. Raises BadRequest, which names the option."""
    return read_config(Settings, file=None if file is None else Path(file), environment=os.environ)
