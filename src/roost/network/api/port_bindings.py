"""The bindings of a port over HTTP. Source: Network API v2.0, extension binding-extended."""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from roost.network.api import listing
from roost.network.api.fields import Text, described
from roost.network.api.policies import ADMIN
from roost.network.api.ports import Profile, VnicType, profile_text
from roost.network.api.protocol import path_id
from roost.network.api.resources import SHOW_QUERY, answer, list_answer, list_query
from roost.network.errors import InvalidInput, PortNotFound
from roost.network.model.ports import Binding
from roost.network.rules.notifications import vif_details
from roost.network.service import Networks
from roost.network.service import port_bindings as service
from roost.platform.bodies import read_json
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.structs import copy_as


class BindingBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST bindings: one binding."""

    host: Annotated[Text, described(minLength=1)]
    vnic_type: VnicType = "normal"
    profile: Profile | None = None
    project_id: Text | None = None


class BindingEnvelope(Struct, forbid_unknown_fields=True):
    """The body around one binding."""

    binding: BindingBody


class BindingUpdateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """PUT bindings/{host}: what is left out stays. host: only the one it has."""

    host: Text | None = None
    vnic_type: VnicType | None = None
    profile: Profile | None = None


class BindingUpdateEnvelope(Struct, forbid_unknown_fields=True):
    """The body around a binding's changes."""

    binding: BindingUpdateBody


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
            "GET": Operation(
                summary="the bindings of a port, the active one and those that wait",
                endpoint=partial(_list_all, context), rule=get, query=list_query(BindingDocument),
                result=list_answer("bindings", BindingDocument),
            ),
            "POST": Operation(
                summary="add an inactive binding on another host",
                endpoint=partial(_create, context), rule=post, body=BindingEnvelope, status=201, result=result,
                errors=(409,),
            ),
        },
        "/v2.0/ports/{id}/bindings/{host}": {
            "GET": Operation(
                summary="the binding on a host",
                endpoint=partial(_show, context), rule=get, query=SHOW_QUERY, result=result,
            ),
            "PUT": Operation(
                summary="change the binding on a host",
                endpoint=partial(_update, context), rule=put, body=BindingUpdateEnvelope, result=result, errors=(409,),
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


async def _list_all(context: Networks, request: Request) -> Response:
    documents = [_document(binding) for binding in await service.list_bindings(context, _port_id(request))]
    return json_response({"bindings": listing.select(documents, request, BindingDocument, key="host")})


async def _create(context: Networks, request: Request) -> Response:
    port_id = _port_id(request)
    body = (await read_json(request, BindingEnvelope)).binding
    if not body.host:
        raise InvalidInput("host: a binding is on a host.")
    asked_for = Binding(host=body.host, vnic_type=body.vnic_type, profile=profile_text(body.profile or {}))
    binding = await service.create_binding(context, port_id, asked_for)
    return json_response({"binding": _document(binding)}, 201)


async def _show(context: Networks, request: Request) -> Response:
    binding = await service.get_binding(context, _port_id(request), request.path_params["host"])
    return json_response({"binding": listing.show_fields(_document(binding), request)})


async def _update(context: Networks, request: Request) -> Response:
    port_id, host = _port_id(request), request.path_params["host"]
    body = (await read_json(request, BindingUpdateEnvelope)).binding
    if body.host not in (None, host):
        raise InvalidInput(f"host: the binding is on {host} and stays there.")
    profile = None if body.profile is None else profile_text(body.profile)
    changed = await service.update_binding(context, port_id, host, vnic_type=body.vnic_type, profile=profile)
    return json_response({"binding": _document(changed)})


async def _delete(context: Networks, request: Request) -> Response:
    await service.delete_binding(context, _port_id(request), request.path_params["host"])
    return Response(status_code=204)


async def _activate(context: Networks, request: Request) -> Response:
    """Make the binding active. Answer without an envelope, as upstream does and as openstacksdk reads it."""
    active = await service.activate_binding(context, _port_id(request), request.path_params["host"])
    return json_response(_document(active))


def _port_id(request: Request) -> str:
    return path_id(request, "Port", PortNotFound)


def _document(binding: Binding) -> BindingDocument:
    return copy_as(
        BindingDocument,
        binding,
        status="ACTIVE" if binding.active else "INACTIVE",
        profile=msgspec.json.decode(binding.profile),
        vif_details=vif_details(binding.vif_type),
    )
