"""Asks policy before an operation of the Network API begins.

What a caller may not see is not found (404). What a caller sees and may not do is forbidden (403). Segments,
availabilities and quotas belong to no project. Whoever may not see them is refused, where upstream shows an empty list.
"""

from msgspec import Struct
from starlette.requests import Request

from roost.network.api.access import ACCESS_KEY, Access, Target, target_of
from roost.network.api.fields import parse_project
from roost.network.api.networks import NETWORK
from roost.network.api.ports import PORT
from roost.network.api.resources import AnyResource
from roost.network.api.subnets import SUBNET
from roost.network.errors import TagResourceNotFound
from roost.network.service import Networks
from roost.platform.auth import Forbidden, Policy, Unrestricted, caller_of
from roost.platform.errors import BadRequest
from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.operations import Check, ChecksOf, Operation

OWNED: dict[str, AnyResource] = {resource.plural: resource for resource in (NETWORK, SUBNET, PORT)}
"""Collection -> its resource, of resources that belong to projects."""


def checks(networks: Networks, policy: Policy) -> ChecksOf:
    """Return the check before each endpoint; none without authentication, or for an operation without a rule."""

    def checks_of(path: str, method: str, operation: Operation) -> tuple[Check, ...]:
        if isinstance(policy, Unrestricted) or operation.rule is None:
            return ()
        rule = operation.rule.name
        _, _version, collection, *below = path.split("/")
        resource, parameter = OWNED.get(collection), "".join(below[:1]).strip("{}")

        async def check(request: Request) -> None:
            caller = caller_of(request.scope)
            access = await Access.of(networks, policy, caller, owned=resource is not None)
            request.scope[ACCESS_KEY] = access
            if resource is None:
                project_id = request.path_params[parameter] if operation.owner_may else caller.project_id
                if not operation.owner_may or project_id != caller.project_id:
                    access.enforce(rule, target_of(project_id))
            elif parameter:
                await _check_one(networks, access, resource, operation, request, request.path_params[parameter])
            elif method == "POST":
                await _check_new(access, resource, operation, request)

        return (check,)

    return checks_of


async def _check_one(
    networks: Networks, access: Access, resource: AnyResource, operation: Operation, request: Request, named: str
) -> None:
    """Raise why the caller may not do this to the resource. The endpoint answers for one that does not exist."""
    assert operation.rule is not None
    rule = operation.rule.name
    target: Target = {}
    if not (access.privileged and access.allows(rule, {})):
        items = await resource.find(networks, [canonical_uuid(named)]) if is_uuid(named) else []
        if not items:
            return
        document = resource.show(items[0])
        if not access.verdict(document).visible:
            of_tags = "/tags" in request.scope["path"]
            raise TagResourceNotFound(resource.plural, named) if of_tags else resource.absent(named)
        target = access.target(document)
        access.enforce(rule, target)
    if rule == f"update_{resource.name}" and operation.body is not None:
        item = getattr(await resource.read(request, operation.body), resource.name)
        access.enforce_attributes(rule, item, target | target_of(None, device_owner=_device_owner(item)))


async def _check_new(access: Access, resource: AnyResource, operation: Operation, request: Request) -> None:
    """Raise why the caller may not make one of these."""
    assert operation.rule is not None
    rule = operation.rule.name
    body: Struct = await resource.read(request, operation.body)
    for item in resource.bodies_in(body):
        project_id = parse_project(item, access.caller.project_id)
        if project_id != access.caller.project_id and not access.privileged:
            raise BadRequest(
                "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires "
                "admin or advsvc privileges"
            )
        network_id = getattr(item, "network_id", None)
        network = None
        if access.reachable is not None and network_id is not None and is_uuid(network_id):
            network = access.reachable.get(canonical_uuid(network_id))
            if network is None:
                raise NETWORK.absent(network_id)
            if not network.shared and network.project_id != project_id:  # external: no rule can allow it.
                # Source: Neutron, neutron/pecan_wsgi/hooks/ownership_validation.py.
                raise Forbidden(f"Tenant {project_id} not allowed to create {resource.name} on this network")
        target = target_of(project_id, network, _device_owner(item))
        access.enforce(rule, target)
        access.enforce_attributes(rule, item, target)


def _device_owner(item: Struct) -> str | None:
    """Return the device_owner that a body sets, if any."""
    device_owner = getattr(item, "device_owner", None)
    return device_owner if isinstance(device_owner, str) else None
