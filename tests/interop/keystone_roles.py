"""The rights of Roost's own user in the cloud's Keystone, and what Neutron's policy lets the role `service` see."""

import os
from collections.abc import Collection
from pathlib import Path

import requests  # type: ignore[import-untyped]
from tests.interop.processes import ADMIN, PASSWORD

ROLES = tuple(os.environ.get("INTEROP_ROLES", "admin service").split())
"""What Roost's user has. `service` alone needs the lines of POLICY."""
POLICY = """\
"get_segment": "rule:admin_only or role:service"
"get_subnet:segment_id": "rule:admin_only or role:service"
"""


def write_policy(*, granted: bool = True) -> None:
    """Let the role `service` see segments, where Roost's user is no admin; Neutron's own policies else.

    granted: whether it may. Neutron keeps a rule whose line is gone, so that another has to take its place.
    """
    folder = Path(os.environ["ETC"], "neutron", "policy.d")
    folder.mkdir(parents=True, exist_ok=True)
    lines = POLICY if granted else POLICY.replace(" or role:service", "")
    (folder / "roost.yaml").write_text("" if "admin" in ROLES else lines)


def set_roles(wanted: Collection[str] = ROLES) -> None:
    """Give Roost's user these roles in the project `service`, and no others."""
    url, session = ADMIN["OS_AUTH_URL"], requests.Session()
    user = {"name": "admin", "password": PASSWORD, "domain": {"id": "default"}}
    scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
    login = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
    answer = session.post(f"{url}/auth/tokens", json={"auth": login})
    answer.raise_for_status()
    session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def get(path: str, kind: str) -> list[dict[str, str]]:
        answer = session.get(f"{url}{path}")
        answer.raise_for_status()
        listed: list[dict[str, str]] = answer.json()[kind]
        return listed

    (project,) = get("/projects?name=service", "projects")
    (user_of_roost,) = get("/users?name=roost", "users")
    path = f"/projects/{project['id']}/users/{user_of_roost['id']}/roles"
    present = {role["name"] for role in get(path, "roles")}
    for role in get("/roles", "roles"):
        if role["name"] in present.symmetric_difference(wanted):
            method = "PUT" if role["name"] in wanted else "DELETE"
            session.request(method, f"{url}{path}/{role['id']}").raise_for_status()
