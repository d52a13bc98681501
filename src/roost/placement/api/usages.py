"""Who uses how much: /resource_providers/{uuid}/usages and /usages. Source: Placement API 1.0, 1.9, 1.38."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.placement.api import answer_schemas, schemas
from roost.placement.api.bodies import read_query
from roost.placement.api.policies import ADMIN_OR_SERVICE
from roost.placement.api.protocol import answer, provider_uuid
from roost.placement.service import reads as reads_service
from roost.placement.service.ledger import Ledger
from roost.platform.auth import Policy, caller_of
from roost.platform.operations import Operation, Operations, Rule, version_of

CONSUMER_TYPES_SINCE = (1, 38)
ALL_TYPES, UNKNOWN_TYPE = "all", "unknown"
RULE = Rule("placement:usages", "rule:admin_or_project_reader_or_service_api")


def usage_operations(ledger: Ledger, policy: Policy) -> Operations:
    """Return the operations of usages."""

    async def show_provider(request: Request) -> Response:
        provider = await reads_service.get_provider(ledger, provider_uuid(request))
        return answer(request, {"usages": provider.used, "resource_provider_generation": provider.generation})

    async def show_project(request: Request) -> Response:
        # Who may look at a project's usage depends on the project, so policy comes after its parameter.
        policy.enforce(caller_of(request.scope), RULE.name, {"project_id": request.query_params.get("project_id", "")})
        parameters = read_query(request, schemas.USAGES_QUERY)
        usages = await reads_service.list_project_usages(
            ledger, parameters["project_id"], user_id=parameters.get("user_id")
        )
        if version_of(request) < CONSUMER_TYPES_SINCE:
            total: dict[str, int] = {}
            for usage in usages:
                for name, used in usage.resources.items():
                    total[name] = total.get(name, 0) + used
            return answer(request, {"usages": total})
        type_wanted = parameters.get("consumer_type")
        shown: dict[str, dict[str, Any]] = {}
        for usage in usages:
            kind = usage.consumer_type or UNKNOWN_TYPE
            if type_wanted not in (None, ALL_TYPES, kind):
                continue
            amounts = shown.setdefault(ALL_TYPES if type_wanted == ALL_TYPES else kind, {"consumer_count": 0})
            amounts["consumer_count"] += usage.consumers
            for name, used in usage.resources.items():
                amounts[name] = amounts.get(name, 0) + used
        return answer(request, {"usages": shown})

    return {
        "/resource_providers/{uuid}/usages": {
            "GET": Operation(
                summary="how much of it is in use", endpoint=show_provider,
                rule=Rule("placement:resource_providers:usages", ADMIN_OR_SERVICE), errors=(404,),
                result=answer_schemas.PROVIDER_USAGES,
            )
        },
        "/usages": {
            "GET": Operation(
                summary="what a project, or one user of it, holds; from 1.38 by consumer type", endpoint=show_project,
                asks=(RULE,), since=(1, 9), query=schemas.USAGES_QUERY, result=answer_schemas.USAGES,
            )
        },
    }  # fmt: skip
