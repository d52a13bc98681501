"""Reads the file of `capacity --what-if`: a cloud that would be, in YAML, as people write it."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

from roost.cli.asking.cloudfile import expand_ranges
from roost.platform.errors import BadRequest
from roost.platform.mismatch import explain_mismatch, find_mismatch

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Hosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts that are added; name may hold ranges: `r9-h[1-4]`."""

    name: Name
    like: Name
    vcpus: Positive | None = None
    ram_mb: Positive | None = None
    disk_gb: Positive | None = None


class Segment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment that grows."""

    network: Name
    addresses: Positive
    segment: Name | None = None


class Drained(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts that are drained, by name, which may hold ranges, or those of a segment."""

    hosts: Name | None = None
    network: Name | None = None
    segment: Name | None = None


class File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    hosts: tuple[Hosts, ...] = ()
    segments: tuple[Segment, ...] = ()
    drained: tuple[Drained, ...] = ()


FILE_KEYS = f"the keys of the file are {', '.join(File.__struct_fields__)}"


def read_what_if(path: Path) -> dict[str, Any]:
    """Return the file as the API takes it. Raises BadRequest, which says what is wrong in it."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        file = msgspec.convert(content, File, strict=True)
        return {
            "hosts": [
                {"names": list(expand_ranges(hosts.name)), **_given(hosts, "like", "vcpus", "ram_mb", "disk_gb")}
                for hosts in file.hosts
            ],
            "segments": [_given(segment, "network", "segment", "addresses") for segment in file.segments],
            "drained": [name for drained in file.drained if drained.hosts for name in expand_ranges(drained.hosts)],
            "drained_segments": [_named(drained) for drained in file.drained if not drained.hosts],
        }
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise BadRequest(f"{path}: this is not YAML: {error}") from error
    except msgspec.ValidationError as error:
        place = find_mismatch(error)
        text = f"{place}: {explain_mismatch(error)}" if place else f"{explain_mismatch(error)}: {FILE_KEYS}"
        raise BadRequest(f"{path}: {text}") from error
    except ValueError as error:
        raise BadRequest(f"{path}: expected {error}") from error


def _given(part: Struct, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(part, name)) is not None}


def _named(drained: Drained) -> dict[str, Any]:
    if drained.network is None:
        raise ValueError("hosts, or a network and its segment, in each part of drained")
    return _given(drained, "network", "segment")
