"""Whether what a port's guest sends is held to its addresses, and which others it may use."""

from random import Random
from typing import Any

import pytest
from tests.network.cloud import Cloud
from tests.network.test_api import Api

from roost.network import errors
from roost.network.model.ports import AddressPair
from roost.network.rules import nics, port_security
from roost.network.rules.addressing import canonical_mac, new_mac
from roost.seams import guests as seam
from roost.seams.network import Nic

MAC, OTHER = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"


@pytest.fixture
def api(cloud: Cloud) -> Api:
    return Api(cloud)


@pytest.mark.parametrize(
    ("device_owner", "wanted", "network", "is_secured"),
    [
        ("", None, True, True),
        ("", None, False, False),
        ("compute:nova", True, False, True),
        ("compute:nova", False, True, False),
        ("network:dhcp", None, True, False),
        ("network:dhcp", True, True, False),
    ],
)
def test_a_port_is_as_its_client_says_or_else_as_its_network(
    device_owner: str, wanted: bool | None, network: bool, is_secured: bool
) -> None:
    assert port_security.is_secured(device_owner, wanted=wanted, network=network) is is_secured


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("10.0.0.9", "10.0.0.9"),
        ("10.0.0.9/24", "10.0.0.9/24"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("FD00:0:0::9", "fd00::9"),
        ("fd00::/64", "fd00::/64"),
        ("", errors.AllowedAddressPairsMissingIP),
        ("a", errors.InvalidInput),
        ("10.0.0.256", errors.InvalidInput),
        ("10.0.0.9/33", errors.InvalidInput),
        ("fe80::1%eth0", errors.InvalidInput),
        ("224.0.0.18", errors.InvalidInput),
        ("ff02::/16", errors.InvalidInput),
    ],
)
def test_a_pair_has_an_address_or_a_cidr(given: str, canonical: str | type[Exception]) -> None:
    if isinstance(canonical, str):
        assert port_security.read_pairs([AddressPair(ip_address=given)]) == (AddressPair(ip_address=canonical),)
        return
    with pytest.raises(canonical):
        port_security.read_pairs([AddressPair(ip_address=given)])


@pytest.mark.parametrize("mac", ["", "x", "01:00:5e:00:00:01"])
def test_a_pairs_mac_address_is_a_guests(mac: str) -> None:
    with pytest.raises(errors.InvalidInput):
        port_security.read_pairs([AddressPair(ip_address="10.0.0.9", mac_address=mac)])


@pytest.mark.parametrize("text", ["FA:16:3E:00:00:01", "fa-16-3e-00-00-01", MAC])
def test_a_mac_address_is_lower_case_with_colons(text: str) -> None:
    assert canonical_mac(text) == MAC


def test_a_new_mac_address_is_as_openstacks_and_as_it_is_stored() -> None:
    mac = new_mac(Random(0))
    assert mac.startswith("fa:16:3e:")
    assert canonical_mac(mac) == mac


def test_a_pair_has_the_ports_mac_address_unless_it_names_one_and_is_there_once() -> None:
    pairs = [AddressPair(ip_address="10.0.0.9"), AddressPair(ip_address="10.0.0.9", mac_address=OTHER)]
    filled = port_security.with_own_mac(pairs, MAC)
    assert filled == (AddressPair(ip_address="10.0.0.9", mac_address=MAC), pairs[1])
    for twice in (pairs[:1] * 2, [pairs[0], AddressPair(ip_address="10.0.0.9", mac_address=MAC)]):
        with pytest.raises(errors.DuplicateAddressPairInRequest, match=f"mac_address {MAC} ip_address 10.0.0.9"):
            port_security.with_own_mac(twice, MAC)


def test_a_port_has_so_many_pairs_and_none_unless_it_is_secured() -> None:
    pairs = [AddressPair(ip_address=f"10.0.0.{number}") for number in range(11)]
    assert len(port_security.read_pairs(pairs[:10])) == 10
    with pytest.raises(errors.AllowedAddressPairExhausted, match="exceeds the maximum 10"):
        port_security.read_pairs(pairs)
    port_security.refuse_pairs_unsecured((), is_secured=False)
    port_security.refuse_pairs_unsecured(pairs, is_secured=True)
    with pytest.raises(errors.AddressPairAndPortSecurityRequired):
        port_security.refuse_pairs_unsecured(pairs, is_secured=False)


def test_hosts_are_told_whole_blocks() -> None:
    blocks = [nics.whole_block(text) for text in ("10.0.0.9", "10.0.0.9/24", "fd00::9/64")]
    assert blocks == ["10.0.0.9", "10.0.0.0/24", "fd00::/64"]


# Over HTTP.

PAIR = {"ip_address": "10.0.0.9"}


async def test_ports_are_secured_as_their_network_was_when_they_were_made(api: Api, cloud: Cloud) -> None:
    network = await api.make("network")
    assert network["port_security_enabled"] is True
    first = await api.make("port", network_id=network["id"])
    path = f"/v2.0/networks/{network['id']}"
    _, answer = await api.call("PUT", path, {"network": {"port_security_enabled": False}})
    assert answer["network"]["port_security_enabled"] is False
    second = await api.make("port", network_id=network["id"])
    third = await api.make("port", network_id=network["id"], port_security_enabled=True)
    assert [port["port_security_enabled"] for port in (first, second, third)] == [True, False, True]
    _, answer = await api.call("GET", "/v2.0/ports?port_security_enabled=false")
    assert [port["id"] for port in answer["ports"]] == [second["id"]]
    _, answer = await api.call("GET", "/v2.0/networks?port_security_enabled=false")
    assert [item["id"] for item in answer["networks"]] == [network["id"]]
    assert (await api.make("network", port_security_enabled=False))["port_security_enabled"] is False


async def test_the_port_that_a_server_gets_is_secured_as_its_network_is(cloud: Cloud, api: Api) -> None:
    for secured in (True, False):
        network = await api.make("network", port_security_enabled=secured)
        subnet = {"network_id": network["id"], "cidr": "10.0.0.0/24", "ip_version": 4}
        assert (await api.call("POST", "/v2.0/subnets", {"subnet": subnet}))[0] == 201
        (port,) = await cloud.ensure(cloud.server(Nic(tag="0", network_id=network["id"])))
        _, answer = await api.call("GET", f"/v2.0/ports/{port.id}")
        assert answer["port"]["port_security_enabled"] is secured
        assert (await cloud.client.get_nic_networks([port.id]))[port.id].port_security is secured


async def test_pairs_are_kept_shown_changed_and_told_to_hosts(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain()
    pairs = [PAIR, {"ip_address": "10.0.1.7/24", "mac_address": OTHER.upper()}]
    port = await api.make("port", network_id=network.id, mac_address=MAC, allowed_address_pairs=pairs)
    shown = [{"ip_address": "10.0.0.9", "mac_address": MAC}, {"ip_address": "10.0.1.7/24", "mac_address": OTHER}]
    assert port["allowed_address_pairs"] == shown
    path = f"/v2.0/ports/{port['id']}"
    _, answer = await api.call("GET", path)
    assert (answer["port"]["allowed_address_pairs"], answer["port"]["port_security_enabled"]) == (shown, True)
    told = (await cloud.client.get_nic_networks([port["id"]]))[port["id"]]
    assert told.pairs_allowed == (
        seam.AddressPair(ip_address="10.0.0.9", mac_address=MAC),
        seam.AddressPair(ip_address="10.0.1.0/24", mac_address=OTHER),
    )
    _, answer = await api.call("PUT", path, {"port": {"name": "x"}})
    assert answer["port"]["allowed_address_pairs"] == shown
    for nothing in ([], None):
        _, answer = await api.call("PUT", path, {"port": {"allowed_address_pairs": shown}})
        assert answer["port"]["allowed_address_pairs"] == shown
        _, answer = await api.call("PUT", path, {"port": {"allowed_address_pairs": nothing}})
        assert answer["port"]["allowed_address_pairs"] == []
    without_mac = await api.make("port", network_id=network.id, allowed_address_pairs=[PAIR])
    assert without_mac["allowed_address_pairs"] == [{**PAIR, "mac_address": without_mac["mac_address"]}]


async def test_a_port_is_unsecured_once_its_pairs_are_gone(api: Api, cloud: Cloud) -> None:
    network = await cloud.plain()
    port = await api.make("port", network_id=network.id, allowed_address_pairs=[PAIR])
    cases: list[tuple[dict[str, Any], int]] = [
        ({"port_security_enabled": False}, 409),
        ({"port_security_enabled": False, "allowed_address_pairs": [PAIR]}, 409),
        ({"port_security_enabled": False, "allowed_address_pairs": []}, 200),
        ({"allowed_address_pairs": [PAIR]}, 409),
        ({"port_security_enabled": True, "allowed_address_pairs": [PAIR]}, 200),
    ]
    for body, expected in cases:
        status, answer = await api.call("PUT", f"/v2.0/ports/{port['id']}", {"port": body})
        assert status == expected, (body, answer)
        if status == 409:
            assert answer["NeutronError"]["type"] == "AddressPairAndPortSecurityRequired"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"allowed_address_pairs": [{"mac_address": MAC}]}, 400, "AllowedAddressPairsMissingIP"),
        ({"allowed_address_pairs": [PAIR, PAIR]}, 400, "DuplicateAddressPairInRequest"),
        ({"allowed_address_pairs": [PAIR] * 11}, 400, "AllowedAddressPairExhausted"),
        ({"allowed_address_pairs": [{"ip_address": "x"}]}, 400, "InvalidInput"),
        ({"allowed_address_pairs": [{**PAIR, "mac_address": "x"}]}, 400, "InvalidInput"),
        ({"allowed_address_pairs": [{**PAIR, "colour": "red"}]}, 400, "HTTPBadRequest"),
        ({"allowed_address_pairs": PAIR}, 400, "HTTPBadRequest"),
        ({"port_security_enabled": False, "allowed_address_pairs": [PAIR]}, 409, "AddressPairAndPortSecurityRequired"),
        ({"port_security_enabled": None}, 400, "HTTPBadRequest"),
    ],
)
async def test_what_cannot_be_is_refused_of_new_ports_and_of_old_ones(
    api: Api, cloud: Cloud, body: dict[str, Any], status: int, kind: str
) -> None:
    network = await cloud.plain()
    port = await api.make("port", network_id=network.id)
    asked = [("POST", "ports", {"network_id": network.id, **body}), ("PUT", f"ports/{port['id']}", body)]
    for method, path, sent in asked:
        answered, answer = await api.call(method, f"/v2.0/{path}", {"port": sent})
        assert (answered, answer["NeutronError"]["type"]) == (status, kind), answer
    _, answer = await api.call("GET", "/v2.0/ports")
    assert [item["id"] for item in answer["ports"]] == [port["id"]]
