"""Whether the Placement service that is used instead of the ledger next door can be used: asked once, at the start."""

from collections.abc import Sequence

import structlog

from roost.cli.settings import Settings
from roost.clients.placement import RemotePlacement, find_credentials_fault
from roost.clients.placement_http import PlacementHttp
from roost.clients.placement_reads import Elsewhere
from roost.platform.errors import BadRequest, RoostError

log = structlog.get_logger()


class CredentialsRequired(RoostError):
    """The Placement service does not let Roost in, and `[placement] credentials` is `require`."""


async def check_placement(settings: Settings, services: Sequence[str]) -> str | None:
    """Ask the service whether it lets Roost in; return what is wrong with the credentials, after a warning of it.

    A service that is merely down is no fault. Raises BadRequest for one that cannot be used, CredentialsRequired.
    """
    if "placement" in services:
        raise BadRequest(
            "Roost places on another Placement service (--placement-url, or url in [placement_client]): "
            "name the services to serve, network compute conductor, without placement"
        )
    settings.placement_client.check()
    placement = RemotePlacement(Elsewhere(PlacementHttp(settings.placement_client)))  # what it finds is said here
    try:
        fault = await find_credentials_fault(placement)
    finally:
        await placement.close()
    if fault is None:
        return None
    if settings.placement.credentials == "require":
        advice = "give Roost a user or a token in [placement_client]; [placement] credentials is `require`"
        raise CredentialsRequired(f"{fault}: {advice}")
    log.warning("nothing can be placed until the Placement service lets Roost in", reason=fault)
    return fault
