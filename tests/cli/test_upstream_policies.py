"""Operators' policy files that use the base rules of Nova, Neutron and Placement mean here what they mean there."""

from pathlib import Path

import pytest

from roost.cli.serving.access import api_policy
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Caller, Forbidden, Policy

CALLERS = {
    "admin": Caller("root", "cloud", ("admin",)),
    "manager": Caller("meg", "mine", ("manager", "member", "reader")),
    "member": Caller("ann", "mine", ("member", "reader")),
    "other": Caller("eve", "theirs", ("member", "reader")),
    "auditor": Caller("aud", "cloud", ("auditor",)),
    "system": Caller("sys", None, ("admin",), system_scope="all"),
}
MINE = {"project_id": "mine", "tenant_id": "mine"}
ON_MINE = {
    "project_id": "theirs", "tenant_id": "theirs", "network:project_id": "mine", "network:tenant_id": "mine",
    "shared": "False", "router:external": "True",
}  # fmt: skip
SHOW, MIGRATE = "os_compute_api:servers:show", "os_compute_api:os-migrate-server:migrate"


def policy_of(tmp_path: Path, service: str, text: str) -> Policy:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return api_policy(service, "noauth2", str(file), PlacementSettings(), folder=tmp_path)


def let_in(policy: Policy, rule: str, target: dict[str, str]) -> set[str]:
    """Names of the callers that the rule lets do this to the target."""
    names = set()
    for name, caller in CALLERS.items():
        try:
            policy.enforce(caller, rule, target)
        except Forbidden:
            continue
        names.add(name)
    return names


@pytest.mark.parametrize(
    ("service", "rule", "check", "target", "who"),
    [
        ("compute", SHOW, "rule:admin_or_owner", MINE, {"admin", "manager", "member"}),
        ("compute", SHOW, "rule:admin_api", MINE, {"admin"}),
        ("compute", SHOW, "is_admin:True or project_id:%(project_id)s", MINE, {"admin", "manager", "member"}),
        ("compute", SHOW, "is_admin:False", MINE, {"manager", "member", "other", "auditor"}),
        ("compute", MIGRATE, "rule:project_manager_api", MINE, {"manager"}),
        ("compute", MIGRATE, "rule:project_manager_or_admin", MINE, {"admin", "manager"}),
        ("compute", SHOW, "rule:project_member_or_admin", MINE, {"admin", "manager", "member"}),
        ("network", "delete_port", "rule:admin_only", MINE, {"admin"}),
        ("network", "delete_port", "rule:regular_user", MINE, {"admin", "manager", "member", "other", "auditor"}),
        ("network", "delete_port", "rule:admin_or_owner", MINE, {"admin", "manager", "member"}),
        ("network", "delete_port", "rule:network_owner", ON_MINE, {"manager", "member"}),
        ("network", "delete_port", "rule:admin_or_network_owner", ON_MINE, {"admin", "manager", "member"}),
        ("network", "delete_port", "rule:admin_owner_or_network_owner", ON_MINE, set(CALLERS) - {"auditor", "system"}),
        ("network", "delete_port", "tenant_id:%(network:tenant_id)s", ON_MINE, {"manager", "member"}),
        ("network", "delete_port", "project_id:%(network:project_id)s", ON_MINE, {"manager", "member"}),
        ("network", "delete_port", "rule:admin_or_ext_parent_owner or rule:sg_owner", MINE, {"admin"}),
        ("network", "delete_port", "rule:admin_or_data_plane_int or rule:context_is_advsvc", MINE, {"admin"}),
        ("network", "get_subnet", "rule:external_network", ON_MINE, set(CALLERS) - {"system"}),
        ("network", "delete_port", "is_admin:True", MINE, {"admin"}),
        ("placement", "placement:traits:list", "rule:admin_api", {}, {"admin"}),
        ("placement", "placement:traits:list", "rule:project_reader_api", MINE, {"manager", "member"}),
    ],
)  # fmt: skip
def test_base_rules_let_in_whom_upstream_lets_in(
    tmp_path: Path, service: str, rule: str, check: str, target: dict[str, str], who: set[str]
) -> None:
    assert let_in(policy_of(tmp_path, service, f'"{rule}": "{check}"'), rule, target) == who


@pytest.mark.parametrize(("service", "rule"), [("compute", SHOW), ("network", "delete_port")])
def test_who_is_an_admin_is_what_the_file_says(tmp_path: Path, service: str, rule: str) -> None:
    text = f'"context_is_admin": "role:auditor"\n"{rule}": "is_admin:True"'
    assert let_in(policy_of(tmp_path, service, text), rule, MINE) == {"auditor"}


def test_one_file_serves_all_three_services(tmp_path: Path) -> None:
    text = (
        f'"{SHOW}": "rule:admin_or_owner"\n"delete_port": "rule:admin_or_network_owner"\n'
        '"placement:traits:list": "rule:admin_api"\n"default": "rule:admin_or_owner"'
    )
    for service, rule in (("compute", SHOW), ("network", "delete_port"), ("placement", "placement:traits:list")):
        assert "admin" in let_in(policy_of(tmp_path, service, text), rule, MINE)
