"""A server's state under construction: the requests that make it, and the variables by which tests refer to it.

Two calls are made at an older microversion on purpose, because only there can the API express what the tests count on:
aggregates are set at 1.18, where doing so leaves the provider's generation alone; allocations are written at 1.37,
where a consumer may have no consumer type.
"""

import json
import random
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

LATEST = "1.39"
AGGREGATES_WITHOUT_GENERATION = "1.18"
CONSUMERS_WITHOUT_TYPE = "1.37"


class StateError(Exception):
    """The server refused a request that a fixture depends on."""


class Placement:
    """The few Placement calls needed to build a state, made as `admin`; each raises StateError when it is refused."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: object = None, microversion: str = LATEST) -> Any:
        """Make one request; returns the decoded JSON body, None if empty."""
        request = urllib.request.Request(self._url + path, method=method)
        request.add_header("X-Auth-Token", "admin")
        request.add_header("Accept", "application/json")
        request.add_header("OpenStack-API-Version", f"placement {microversion}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        asked = f"{method} {path} ({microversion})"
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise StateError(f"{asked} was answered {error.code}: {said}") from error
        except OSError as error:
            raise StateError(f"{asked} got no answer: {error}") from error
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise StateError(f"{asked} was not answered in JSON: {content[:200]!r}") from error

    def create_provider(self, provider_uuid: str, name: str, parent: str | None = None) -> None:
        """Create a root, or a child of `parent`."""
        body = {"uuid": provider_uuid, "name": name}
        if parent:
            body["parent_provider_uuid"] = parent
        self.call("POST", "/resource_providers", body)

    def set_aggregates(self, provider_uuid: str, aggregates: Iterable[str]) -> None:
        """Set all of them, which costs no generation."""
        path = f"/resource_providers/{provider_uuid}/aggregates"
        self.call("PUT", path, list(aggregates), AGGREGATES_WITHOUT_GENERATION)

    def add_inventory(self, provider_uuid: str, resource_class: str, inventory: Mapping[str, object]) -> None:
        """Add one inventory record, which costs exactly one generation."""
        if resource_class.startswith("CUSTOM_"):
            self.call("PUT", f"/resource_classes/{resource_class}")
        generation = self._generation(provider_uuid)
        body = {**inventory, "resource_class": resource_class, "resource_provider_generation": generation}
        self.call("POST", f"/resource_providers/{provider_uuid}/inventories", body)

    def set_traits(self, provider_uuid: str, traits: Iterable[str]) -> None:
        """Set all of them, after creating those that are custom."""
        for trait in traits:
            if trait.startswith("CUSTOM_"):
                self.call("PUT", f"/traits/{trait}")
        body = {"traits": list(traits), "resource_provider_generation": self._generation(provider_uuid)}
        self.call("PUT", f"/resource_providers/{provider_uuid}/traits", body)

    def allocate(
        self, consumer_uuid: str, provider_uuid: str, resources: Mapping[str, int], *, project: str, user: str
    ) -> None:
        """Give resources of one provider to a consumer that is new."""
        body = {
            "allocations": {provider_uuid: {"resources": resources}},
            "project_id": project,
            "user_id": user,
            "consumer_generation": None,
        }
        self.call("PUT", f"/allocations/{consumer_uuid}", body, CONSUMERS_WITHOUT_TYPE)

    def _generation(self, provider_uuid: str) -> int:
        path = f"/resource_providers/{provider_uuid}"
        provider = self.call("GET", path)
        try:
            return int(provider["generation"])
        except (TypeError, KeyError) as error:
            raise StateError(f"GET {path} was answered without a generation: {provider!r}") from error


class State:
    """A state under construction, and the environment that describes it.

    environ: the variables to which the gabbi files refer as `$ENVIRON[...]`. The uuids are drawn from a seeded
    generator, so that a run can be repeated.
    """

    def __init__(self, placement: Placement, seed: str) -> None:
        self.environ: dict[str, str] = {}
        self._placement = placement
        self._random = random.Random(seed)

    def new_uuid(self, variable: str | None = None) -> str:
        """A new uuid, exported as `variable` if one is named."""
        value = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        if variable:
            self.environ[variable] = value
        return value

    def provider(
        self,
        name: str,
        variable: str | None = None,
        *,
        parent: str | None = None,
        aggregates: Iterable[str] = (),
        inventories: Mapping[str, Any] | None = None,
        traits: Iterable[str] = (),
        provider_uuid: str | None = None,
    ) -> str:
        """Create a provider and return its uuid.

        An inventory is written as its total, or as a dict of its fields. Unless it says otherwise its max_unit is its
        total.
        """
        if provider_uuid is None:
            provider_uuid = self.new_uuid(variable)
        self._placement.create_provider(provider_uuid, name, parent)
        if aggregates:
            self._placement.set_aggregates(provider_uuid, aggregates)
        self.furnish(provider_uuid, inventories, traits)
        return provider_uuid

    def furnish(
        self, provider_uuid: str, inventories: Mapping[str, Any] | None = None, traits: Iterable[str] = ()
    ) -> None:
        """Add inventories and traits to a provider that has none."""
        for resource_class, written in (inventories or {}).items():
            fields = written if isinstance(written, dict) else {"total": written}
            self._placement.add_inventory(provider_uuid, resource_class, {"max_unit": fields["total"], **fields})
        if traits:
            self._placement.set_traits(provider_uuid, traits)

    def join(self, provider_uuid: str, *aggregates: str) -> None:
        """Put a provider into these aggregates and no others."""
        self._placement.set_aggregates(provider_uuid, aggregates)

    def consumer(
        self, provider_uuid: str, resources: Mapping[str, int], project: str, user: str, variable: str | None = None
    ) -> None:
        """Allocate resources to a new consumer."""
        self._placement.allocate(self.new_uuid(variable), provider_uuid, resources, project=project, user=user)
