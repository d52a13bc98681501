"""Whom the Placement API's rules let in, in each mode that upstream's tests know."""

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.platform.asgi import Answer, ask

from roost.cli.serving.access import api_policy
from roost.cli.serving.roles import PRESETS
from roost.placement.api import operations, routes, rules
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Caller, Forbidden, Policy, Unrestricted
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.operations import collect_defaults

RESHAPE, USAGES = "placement:reshaper:reshape", "placement:usages"
NOTHING: Any = None  # the operations need no ledger to be listed
RULES = set(collect_defaults(operations(NOTHING, Unrestricted()), {}))


def preset(name: str) -> Policy:
    return api_policy("placement", "noauth2", name, PlacementSettings(), folder=Path("/"))


def allowed(policy: Policy, *roles: str, system_scope: str | None = None, asked: str = "mine") -> set[str]:
    """The operations that a caller in the project `mine` may do."""
    caller = Caller("u", None if system_scope else "mine", roles, system_scope)
    found = set()
    for rule in RULES:
        try:
            policy.enforce(caller, rule, {"project_id": asked} if rule == USAGES else None)
        except Forbidden:
            continue
        found.add(rule)
    return found


@pytest.mark.parametrize("name", ["default", "legacy-rbac", "cors"])
def test_by_legacy_defaults_admins_and_services_may_do_everything(name: str) -> None:
    assert allowed(preset(name), "admin") == RULES
    assert allowed(preset(name), "service") == RULES


def test_by_new_defaults_only_services_reshape() -> None:
    assert allowed(preset("secure-rbac"), "admin") == RULES - {RESHAPE}
    assert allowed(preset("secure-rbac"), "service") == RULES


@pytest.mark.parametrize("name", ["default", "legacy-rbac", "secure-rbac", "cors"])
def test_readers_may_see_the_usages_of_their_own_project_and_nothing_else(name: str) -> None:
    assert allowed(preset(name), "reader") == {USAGES}
    assert allowed(preset(name), "reader", asked="another") == set()
    assert allowed(preset(name), "member") == set()


def test_open_lets_everybody_in() -> None:
    assert allowed(preset("open"), asked="another") == RULES


@pytest.mark.parametrize("name", PRESETS)
def test_a_caller_scoped_to_the_system_may_do_nothing(name: str) -> None:
    assert allowed(preset(name), "admin", "service", "reader", system_scope="all") == set()


def test_new_defaults_are_the_default() -> None:
    unconfigured = api_policy("placement", "keystone", None, PlacementSettings(), folder=Path("/"))
    assert allowed(unconfigured, "admin") == RULES - {RESHAPE}
    legacy = PlacementSettings(enforce_new_defaults=False)
    assert allowed(api_policy("placement", "keystone", None, legacy, folder=Path("/")), "admin") == RULES


def test_an_operators_file_overrides_by_upstreams_names(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        '"placement:traits:list": "role:reader"\n"service_api": "role:service or role:admin"\n'
    )
    settings = PlacementSettings(policy_file="policy.yaml")
    for policy in (
        api_policy("placement", "noauth2", None, settings, folder=tmp_path),
        api_policy("placement", "noauth2", str(tmp_path / "policy.yaml"), PlacementSettings(), folder=Path("/")),
    ):
        assert allowed(policy, "reader") == {USAGES, "placement:traits:list"}
        assert allowed(policy, "admin") == RULES - {"placement:traits:list"}


def test_nobody_is_refused_where_nobody_is_asked_who_they_are() -> None:
    policy = api_policy("placement", "none", None, PlacementSettings(), folder=Path("/"))
    assert allowed(policy, system_scope="all") == RULES


def test_every_operation_but_the_documents_has_a_rule() -> None:
    served = [one for methods in operations(NOTHING, Unrestricted()).values() for one in methods.values()]
    unruled = {one.endpoint.__name__ for one in served if one.rule is None}
    assert unruled == {"show_versions", "show_document", "show_project"}, (
        "show_project enforces the rule of usages itself"
    )


def test_there_are_upstreams_rules_and_no_others() -> None:
    shared = {rule.name for rule in rules()} - RULES
    assert shared == {
        *("admin_api", "service_api", "admin_or_service_api"),
        *("project_reader_api", "admin_or_project_reader_or_service_api"),
    }
    assert len(RULES) == 33


async def test_the_api_refuses_in_upstreams_words_and_before_it_looks_at_anything(database: Database) -> None:
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    app = Authentication(
        Starlette(routes=list(routes(ledger, preset("secure-rbac")))),
        noauth2,
        open_paths=frozenset({"/"}),
    )

    async def call(path: str, token: str, *, method: str = "GET", **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        always = {"X-Auth-Token": token, "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
        return await ask(app, path, always | given, method=method, body=b"{}" if method == "POST" else b"")

    refused = await call("/resource_providers", "user")
    assert refused.status == 403
    [error] = refused.body["errors"]
    assert (error["status"], error["title"]) == (403, "Forbidden")
    assert "Policy does not allow placement:resource_providers:list to be performed." in error["detail"]
    assert (await call("/resource_providers", "admin")).status == 200
    assert (await call("/resource_providers", "admin", openstack_system_scope="all")).status == 403

    assert (await call("/reshaper", "admin", method="POST")).status == 403
    assert (await call("/reshaper", "nova", method="POST", x_roles="service")).status == 400  # by its body: {}

    reader = {"x_roles": "reader"}
    assert (await call("/usages?project_id=mine", "user:mine", **reader)).status == 200
    assert (await call("/usages?project_id=other", "user:mine", **reader)).status == 403
    assert (await call("/usages?project_id=mine&project_id=other", "user:mine", **reader)).status == 403
    assert (await call("/usages?project_id=mine", "user:mine", x_project_id="other", **reader)).status == 403
    assert (await call("/usages", "user:mine", **reader)).status == 403
