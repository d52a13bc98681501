"""What is given back of the addresses of a port whose server goes back to where it came from."""

from datetime import UTC, datetime

import pytest

from roost.network.model.ports import Address, Port
from roost.network.rules.port_bindings import list_addresses_since

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "10.1.0.2", "10.2.0.2"


def port(*addresses: str) -> Port:
    """Return a bound port with these addresses."""
    return Port(
        id="p", network_id="n", project_id="t", name="", description="", mac_address="fa:16:3e:00:00:01",
        admin_state_up=True, device_id="s", device_owner="compute:nova", ip_allocation="deferred", host="h1",
        vnic_type="normal", binding_profile="{}", vif_type="ovs", made_for="s", reserved_from=None, revision=1,
        created_at=NOW, updated_at=NOW,
        addresses=tuple(
            Address(subnet_id="sn", address=address, port_id="p", in_pool=True, claimed=True, provider_uuid="g")
            for address in addresses
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("addresses", "before", "since"),
    [
        ((OLD,), (OLD,), []),
        ((NEW,), (OLD,), [NEW]),
        ((OLD, NEW), (OLD,), [NEW]),
        ((NEW,), (), [NEW]),
        ((), (OLD,), []),
        ((OLD,), None, []),
    ],
    ids=["as it was", "exchanged", "one more", "had none", "lost it", "nobody noted it"],
)
def test_only_an_address_that_the_port_did_not_have_before_is_given_back(
    addresses: tuple[str, ...], before: tuple[str, ...] | None, since: list[str]
) -> None:
    assert [item.address for item in list_addresses_since(port(*addresses), before)] == since
