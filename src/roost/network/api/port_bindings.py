"""The bindings of a port over HTTP. Source: Network API v2.0, extension binding-extended."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request

from roost.network.api.fields import Text
from roost.network.api.policies import ADMIN
from roost.network.api.ports import PORT, Profile, VnicType, profile_text
from roost.network.api.resources import answer, get_few, get_one
from roost.network.errors import InvalidInput
from roost.network.model.networks import described
from roost.network.model.ports import Binding
from roost.network.rules.documents import vif_details
from roost.network.service import Networks
from roost.network.service import ports as service
from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.structs import body_type, copy_as


class BindingBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST bindings: one binding."""

    host: Annotated[Text, described(minLength=1)]
    vnic_type: VnicType = "normal"
    profile: Profile | None = None
    project_id: Text | None = None


class BindingUpdateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """PUT bindings/{host}: what is left out stays. host: only the one it has."""

    host: Text | None = None
    vnic_type: VnicType | None = None
    profile: Profile | None = None


ENVELOPE = body_type("BindingEnvelope", ("binding", BindingBody), doc="The body around one binding.")
UPDATE = body_type("BindingUpdateEnvelope", ("binding", BindingUpdateBody), doc="The body around a binding's changes.")


class BindingDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """One binding."""

    host: str
    vif_type: str
    vnic_type: str
    status: Literal["ACTIVE", "INACTIVE"]
    profile: dict[str, Any]
    vif_details: dict[str, Any]


def binding_operations(context: Networks) -> Operations:
    """Return the operations of the collection, of one binding, and of its activation."""
    result = answer("binding", BindingDocument)
    get, post, put, delete = (Rule(f"{verb}_port_binding", ADMIN) for verb in ("get", "create", "update", "delete"))
    return {
        "/v2.0/ports/{id}/bindings": {
            "GET": get_few(
                "bindings", BindingDocument, partial(_list_all, context), key="host",
                summary="the bindings of a port, the active one and those that wait", rule=get,
            ),
            "POST": Operation(
                summary="add an inactive binding on another host",
                endpoint=partial(_create, context), rule=post, body=ENVELOPE, status=201, result=result,
                errors=(409,),
            ),
        },
        "/v2.0/ports/{id}/bindings/{host}": {
            "GET": get_one("binding", result, partial(_read, context), summary="the binding on a host", rule=get),
            "PUT": Operation(
                summary="change the binding on a host",
                endpoint=partial(_update, context), rule=put, body=UPDATE, result=result, errors=(409,),
            ),
            "DELETE": Operation(
                summary="delete the binding on a host; without the active one the port is unbound",
                endpoint=partial(_delete, context), rule=delete, status=204, errors=(409,),
            ),
        },
        "/v2.0/ports/{id}/bindings/{host}/activate": {
            "PUT": Operation(
                summary="make the binding on a host the active one; the other becomes inactive",
                endpoint=partial(_activate, context), rule=Rule("activate", ADMIN), result=BindingDocument,
                errors=(409,),
            )
        },
    }  # fmt: skip


async def _list_all(context: Networks, request: Request) -> list[BindingDocument]:
    return [_document(binding) for binding in await service.list_bindings(context, PORT.id_of(request))]


async def _create(context: Networks, request: Request) -> dict[str, BindingDocument]:
    port_id = PORT.id_of(request)
    body: BindingBody = (await read_json(request, ENVELOPE)).binding
    if not body.host:
        raise InvalidInput("host: a binding is on a host.")
    binding = Binding(host=body.host, vnic_type=body.vnic_type, profile=profile_text(body.profile or {}))
    return {"binding": _document(await service.create_binding(context, port_id, binding))}


async def _read(context: Networks, request: Request) -> BindingDocument:
    return _document(await service.get_binding(context, *_named(request)))


async def _update(context: Networks, request: Request) -> dict[str, BindingDocument]:
    port_id, host = _named(request)
    body: BindingUpdateBody = (await read_json(request, UPDATE)).binding
    if body.host not in (None, host):
        raise InvalidInput(f"host: the binding is on {host} and stays there.")
    profile = None if body.profile is None else profile_text(body.profile)
    changed = await service.update_binding(context, port_id, host, vnic_type=body.vnic_type, profile=profile)
    return {"binding": _document(changed)}


async def _delete(context: Networks, request: Request) -> None:
    await service.delete_binding(context, *_named(request))


async def _activate(context: Networks, request: Request) -> BindingDocument:
    """Make the binding active. Answer without an envelope, as upstream does and as openstacksdk reads it."""
    return _document(await service.activate_binding(context, *_named(request)))


def _named(request: Request) -> tuple[str, str]:
    """Return the port and the host that the path names. Raises PortNotFound."""
    return PORT.id_of(request), request.path_params["host"]


def _document(binding: Binding) -> BindingDocument:
    return copy_as(
        BindingDocument,
        binding,
        status="ACTIVE" if binding.active else "INACTIVE",
        profile=msgspec.json.decode(binding.profile),
        vif_details=vif_details(binding.vif_type),
    )
