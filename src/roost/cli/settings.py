"""Every option of roost.toml; docs/reference/configuration.md."""

import os
from pathlib import Path

from msgspec import Struct

from roost.conductor.settings import ConductorSettings
from roost.network.settings import NetworkSettings
from roost.platform.config import load_section


class Settings(Struct, frozen=True, kw_only=True):
    """Every section of roost.toml."""

    network: NetworkSettings
    conductor: ConductorSettings


def read_settings(file: Path | str | None) -> Settings:
    """The configuration from `file` and the environment. Raises BadRequest, which names the option."""
    path = None if file is None else Path(file)
    return Settings(
        network=load_section(NetworkSettings, "network", file=path, environment=os.environ),
        conductor=load_section(ConductorSettings, "conductor", file=path, environment=os.environ),
    )
