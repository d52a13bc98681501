"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from pathlib import Path

from msgspec import Struct

from roost.conductor.settings import ConductorSettings
from roost.network.settings import NetworkSettings
from roost.placement.settings import PlacementSettings
from roost.platform.config import load_section
from roost.platform.settings import CorsSettings, KeystoneSettings, ProxySettings


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    placement: PlacementSettings
    network: NetworkSettings
    conductor: ConductorSettings
    keystone: KeystoneSettings
    proxy: ProxySettings
    cors: CorsSettings


def read_settings(file: Path | str | None) -> Settings:
    """The configuration from `file` and the environment. Raises BadRequest, which names the option."""
    path = None if file is None else Path(file)
    return Settings(
        placement=load_section(PlacementSettings, "placement", file=path, environment=os.environ),
        network=load_section(NetworkSettings, "network", file=path, environment=os.environ),
        conductor=load_section(ConductorSettings, "conductor", file=path, environment=os.environ),
        keystone=load_section(KeystoneSettings, "keystone", file=path, environment=os.environ),
        proxy=load_section(ProxySettings, "proxy", file=path, environment=os.environ),
        cors=load_section(CorsSettings, "cors", file=path, environment=os.environ),
    )
