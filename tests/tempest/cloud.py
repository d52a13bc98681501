"""Makes what the compute tests boot on: two flavors, as tempest.conf.in names them, and one network for everybody.

cloud.py KEYSTONE_URL COMPUTE_URL NETWORK_URL
"""

import sys

from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

FLAVORS = (
    {"id": "1", "name": "small", "vcpus": 1, "ram": 128, "disk": 1},
    {"id": "2", "name": "large", "vcpus": 2, "ram": 256, "disk": 2},
)


def main() -> None:
    """Make each of them."""
    keystone_url, compute_url, network_url = sys.argv[1:]
    auth = Password(
        keystone_url, username="admin", password="secret", project_name="admin",
        user_domain_id="default", project_domain_id="default",
    )  # fmt: skip
    session = Session(auth)
    for flavor in FLAVORS:
        session.post(f"{compute_url}/flavors", json={"flavor": flavor})
    network = {"name": "private", "shared": True}
    made = session.post(f"{network_url}/v2.0/networks", json={"network": network}).json()["network"]
    subnet = {"network_id": made["id"], "ip_version": 4, "cidr": "10.200.0.0/20"}
    session.post(f"{network_url}/v2.0/subnets", json={"subnet": subnet})


main()
