"""Prints tempest's section of the network's extensions, as the server lists them.

extensions.py KEYSTONE_URL NETWORK_URL
"""

import sys

from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

keystone_url, network_url = sys.argv[1:]
auth = Password(
    keystone_url, username="admin", password="secret", project_name="admin",
    user_domain_id="default", project_domain_id="default",
)  # fmt: skip
listed = Session(auth).get(f"{network_url}/v2.0/extensions").json()["extensions"]
print(
    f"""
[network-feature-enabled]
api_extensions = {",".join(sorted(one["alias"] for one in listed))}
ipv6 = true
ipv6_subnet_attributes = true
port_security = true
floating_ips = false
port_admin_state_change = true"""
)
