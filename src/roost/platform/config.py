"""Options from `roost.toml` and the environment: every option has a default, an unknown one is an error.

A section of the file is a struct of the part that uses it. `[conductor] lease_s = 10` and ROOST_CONDUCTOR_LEASE_S=10
say the same; the environment wins. An option that is a list is written with commas in the environment.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin

import msgspec

from roost.platform.errors import BadRequest

T = TypeVar("T")


def load_section(kind: type[T], section: str, *, file: Path | None, environment: Mapping[str, str]) -> T:
    """One section as its struct. Raises BadRequest, which names the option and what was expected."""
    given: dict[str, Any] = dict(_read(file).get(section, {})) if file else {}
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(given.keys() - fields):
        raise BadRequest(f"{file}: [{section}] has no option {', '.join(unknown)}; it has {', '.join(sorted(fields))}")
    source = str(file)
    for name, type_ in fields.items():
        variable = f"ROOST_{section}_{name}".upper()
        if variable in environment:
            given[name], source = environment[variable], variable
            if get_origin(type_) is tuple:
                given[name] = [word.strip() for word in environment[variable].split(",") if word.strip()]
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{source}: [{section}] {error}") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} is not TOML: {error}") from error
