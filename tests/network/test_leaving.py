"""What a guest may still have of a port that its server has lost: rules. With guests: tests/conductor/test_nics.py."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from roost.network.model.ports import Address, Port, is_server_id
from roost.network.model.unknown_guests import LeftNic
from roost.network.rules.port_bindings import find_plugged
from roost.network.rules.readdressing import list_leaving

SERVER, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
ONE, TWO = (
    Address(subnet_id="s", address=address, port_id="p", in_pool=True, claimed=True, provider_uuid="s")
    for address in ("10.1.0.2", "10.1.0.3")
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PORT = Port(
    id="p", network_id="n", project_id="", name="", description="", mac_address="", admin_state_up=True,
    device_id=SERVER, device_owner="compute:nova", ip_allocation="deferred", host="h1", vnic_type="normal",
    binding_profile="{}", vif_type="ovs", made_for=None, reserved_from=None, revision=1, created_at=NOW,
    updated_at=NOW, addresses=(ONE, TWO),
)  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "dropped", "leaving"),
    [
        ({}, None, (), (ONE, TWO)),
        ({}, {"device_id": ""}, (), (ONE, TWO)),
        ({}, {"device_id": OTHER}, (), (ONE, TWO)),
        ({}, {}, (TWO,), (TWO,)),
        ({}, {"name": "web"}, (), ()),
        ({"host": None}, None, (), ()),
        ({"device_owner": "network:dhcp"}, None, (), ()),
        ({"device_owner": ""}, None, (), ()),
        ({"device_id": "a router"}, None, (), ()),
    ],
)
def test_a_guest_may_still_have_what_its_server_loses(
    before: dict[str, Any], after: dict[str, Any] | None, dropped: tuple[Address, ...], leaving: tuple[Address, ...]
) -> None:
    port = replace(PORT, **before)
    assert tuple(list_leaving(port, None if after is None else replace(port, **after), dropped)) == leaving


@pytest.mark.parametrize(
    ("device_id", "is_server"), [(SERVER, True), ("", False), ("router-1", False), (f"{SERVER}x", False)]
)
def test_a_device_may_be_a_server(device_id: str, is_server: bool) -> None:
    assert is_server_id(device_id) is is_server


@pytest.mark.parametrize(("server_id", "is_refused"), [(SERVER, False), (OTHER, True)])
def test_a_port_is_still_anothers_while_that_ones_guest_may_have_it(server_id: str, is_refused: bool) -> None:
    left = [LeftNic(port_id="p", server_id=SERVER, host="h1")]
    reason = f"Port p is still in use: server {SERVER} has let it go, and host h1 has not said yet that its guest has."
    assert find_plugged(left, {"p": server_id}) == ({"p": reason} if is_refused else {})
