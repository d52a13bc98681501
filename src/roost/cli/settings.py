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
from roost.scheduling.settings import SchedulingSettings


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    placement: PlacementSettings
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
    """The configuration from `file` and the environment. Raises BadRequest, which names the option."""
    path = None if file is None else Path(file)
    sections = {section.name: section.type for section in msgspec.structs.fields(Settings)}
    check_names(sections, file=path, environment=os.environ)
    return Settings(
        **{name: load_section(kind, name, file=path, environment=os.environ) for name, kind in sections.items()}
    )
