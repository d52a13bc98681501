"""Makes what a fresh Keystone lacks: Roost's user in the project `service`, and the endpoints of its APIs.

catalogue.py KEYSTONE_URL TYPE=URL...
"""

import sys

from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

ROLES = ("member", "reader", "service")


def main() -> None:
    """Make each of them."""
    keystone_url, *endpoints = sys.argv[1:]
    auth = Password(
        keystone_url, username="admin", password="secret", project_name="admin",
        user_domain_id="default", project_domain_id="default",
    )  # fmt: skip
    session = Session(auth)

    def make(kind: str, **fields: object) -> str:
        answer = session.post(f"{keystone_url}/{kind}s", json={kind: fields})
        return str(answer.json()[kind]["id"])

    roles = {role["name"]: role["id"] for role in session.get(f"{keystone_url}/roles").json()["roles"]}
    for name in ROLES:
        roles.setdefault(name, "")
        roles[name] = roles[name] or make("role", name=name)
    project = make("project", name="service", domain_id="default")
    user = make("user", name="roost", password="secret", domain_id="default")
    session.put(f"{keystone_url}/projects/{project}/users/{user}/roles/{roles['service']}")
    for endpoint in endpoints:
        kind, url = endpoint.split("=", 1)
        service = make("service", type=kind, name=f"roost-{kind}")
        make("endpoint", service_id=service, interface="public", url=url, region_id="RegionOne")


main()
