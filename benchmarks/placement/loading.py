"""Builds the cloud on a server over its API, with retries: upstream refuses some writes that race with others."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.placement.client import Client, HTTPFailure, for_each
from benchmarks.placement.cloud import Provider

PATIENCE = 30
PAUSE_S = 0.02


@dataclass(frozen=True)
class Loaded:
    """What loading took. failures: answers of 500 and above, each sat out."""

    providers: int
    seconds: float
    failures: int


def load(url: str, providers: Sequence[Provider], *, clients: int = 8) -> Loaded:
    """Create the providers with all that they have; none may exist. Raises HTTPFailure."""
    failures: list[int] = []
    started = time.perf_counter()
    roots, children = ([one for one in providers if bool(one.parent) is below] for below in (False, True))
    for batch in (roots, children):
        for_each(url, len(batch), partial(_create, batch, failures), clients=clients)
    return Loaded(len(providers), time.perf_counter() - started, len(failures))


def _create(batch: Sequence[Provider], failures: list[int], client: Client, number: int) -> None:
    provider = batch[number]
    body = {"name": provider.name, "uuid": provider.uuid}
    if provider.parent:
        body["parent_provider_uuid"] = provider.parent
    generation = _send(client, "POST", "/resource_providers", body, failures)["generation"]
    parts: dict[str, Any] = {"inventories": provider.inventories}
    if provider.aggregates:
        parts["aggregates"] = provider.aggregates
    if provider.traits:
        parts["traits"] = provider.traits
    for part, content in parts.items():
        body = {part: content, "resource_provider_generation": generation}
        path = f"/resource_providers/{provider.uuid}/{part}"
        generation = _send(client, "PUT", path, body, failures)["resource_provider_generation"]


def _send(client: Client, method: str, path: str, body: dict[str, Any], failures: list[int]) -> Any:
    """Until it is done; a conflict makes it ask for the provider's generation anew."""
    for attempt in range(1, PATIENCE + 1):
        status, data = client.request(method, path, body)
        if status < 300:
            return json.loads(data)
        if status >= 500:
            failures.append(status)
            time.sleep(PAUSE_S * attempt)
        elif status == 409 and method == "PUT":
            body["resource_provider_generation"] = client.json("GET", path.rpartition("/")[0])["generation"]
        else:
            break
    raise HTTPFailure(f"{method} {path}: {status} {data[:300]!r}")
