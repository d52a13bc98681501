"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from roost.compute.settings import ComputeSettings
from roost.conductor.settings import ConductorSettings
from roost.network.settings import NetworkSettings
from roost.placement.settings import PlacementSettings
from roost.platform.config import check_names, load_section
from roost.platform.settings import ApiSettings, CorsSettings, KeystoneSettings, ListenerSettings, ProxySettings


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    placement: PlacementSettings
    network: NetworkSettings
    compute: ComputeSettings
    conductor: ConductorSettings
    api: ApiSettings
    listeners: ListenerSettings
    keystone: KeystoneSettings
    proxy: ProxySettings
    cors: CorsSettings


def read_settings(file: Path | str | None) -> Settings:
    """The configuration from `file` and the environment. Raises BadRequest, which names the option."""
    path = None if file is None else Path(file)
    sections = {section.name: section.type for section in msgspec.structs.fields(Settings)}
    check_names(sections, file=path, environment=os.environ)
    return Settings(
        placement=load_section(PlacementSettings, "placement", file=path, environment=os.environ),
        network=load_section(NetworkSettings, "network", file=path, environment=os.environ),
        compute=load_section(ComputeSettings, "compute", file=path, environment=os.environ),
        conductor=load_section(ConductorSettings, "conductor", file=path, environment=os.environ),
        api=load_section(ApiSettings, "api", file=path, environment=os.environ),
        listeners=load_section(ListenerSettings, "listeners", file=path, environment=os.environ),
        keystone=load_section(KeystoneSettings, "keystone", file=path, environment=os.environ),
        proxy=load_section(ProxySettings, "proxy", file=path, environment=os.environ),
        cors=load_section(CorsSettings, "cors", file=path, environment=os.environ),
    )
