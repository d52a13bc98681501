"""Flavors: the sizes that servers come in. A server keeps a copy of its own, so a flavor can go at any time."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from roost.compute.errors import ExtraSpecRefused, FlavorExists, FlavorNotFound
from roost.compute.model.cloud import EVERY_FLAVOR, Flavor, FlavorFilter
from roost.compute.rules.extra_specs import find_spec_problem
from roost.compute.service.context import Compute
from roost.compute.store import flavors as store

FLAVORS_PAGE_MAX = 1000
FLAVORS_NAMED_MAX = 20
"""How many flavors an error names when the one asked for does not exist."""


class FlavorRequest(Struct, frozen=True, kw_only=True):
    """A flavor to be made. id None: a new UUID."""

    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    id: str | None = None
    description: str | None = None
    extra_specs: Mapping[str, str] = {}
    is_public: bool = True


async def create_flavor(compute: Compute, request: FlavorRequest) -> Flavor:
    """Make a flavor. Raises FlavorExists when the id or the name is taken."""
    flavor = Flavor(**asdict(request) | {"id": request.id or compute.env.new_uuid()})
    async with compute.database.transaction() as tx:
        if not await store.insert_flavor(tx, flavor):
            raise FlavorExists(f"Flavor with name {flavor.name} or ID {flavor.id} already exists.")
    return flavor


async def list_flavors(
    compute: Compute, *, after: str = "", limit: int = FLAVORS_PAGE_MAX, only: FlavorFilter = EVERY_FLAVOR
) -> list[Flavor]:
    """Return a page of flavors by id, above `after`."""
    async with compute.database.connection() as connection:
        return await store.list_flavors(connection, after=after, limit=min(limit, FLAVORS_PAGE_MAX), only=only)


async def find_flavor(compute: Compute, flavor_id: str, *, public_only: bool) -> Flavor | None:
    """Return the flavor with that id; None where there is none, or none for everybody."""
    async with compute.database.connection() as connection:
        flavor = await store.find_flavor(connection, flavor_id, by_name=False)
    return None if flavor is None or (public_only and not flavor.is_public) else flavor


async def delete_flavor(compute: Compute, flavor_id: str) -> None:
    """Delete a flavor; servers keep their copy. Raises FlavorNotFound."""
    async with compute.database.transaction() as tx:
        if not await store.delete_flavor(tx, flavor_id):
            raise FlavorNotFound(f"Flavor {flavor_id} could not be found.")


async def set_extra_specs(
    compute: Compute, flavor_id: str, *, added: Mapping[str, str], removed: tuple[str, ...] = (), checked: bool = False
) -> Flavor:
    """Add or replace some extra specs and drop others. Raises FlavorNotFound.

    checked: those with which no server can be made are refused. Raises ExtraSpecRefused.
    """
    if checked and (problem := find_spec_problem(added)):
        raise ExtraSpecRefused(problem)
    async with compute.database.transaction() as tx:
        flavor = await store.set_extra_specs(tx, flavor_id, added=dict(added), removed=list(removed))
    if flavor is None:
        raise FlavorNotFound(f"Flavor {flavor_id} could not be found.")
    return flavor
