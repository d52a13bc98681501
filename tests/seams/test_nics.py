"""The port of a NIC has the same id whoever makes it; one that a host does not reach has its sentence."""

import pytest

from roost.seams.network import Nic, UnreachedPort

SERVER = "5e000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("nic", "port_id"),
    [
        (Nic(tag="0", network_id="n"), "b69606bb-e484-576b-8b1f-65838847e516"),
        (Nic(tag="0", network_id="another"), "b69606bb-e484-576b-8b1f-65838847e516"),
        (Nic(tag="1", port_id="a-users"), "a-users"),
    ],
)
def test_a_port_id_follows_from_the_server_and_the_nic(nic: Nic, port_id: str) -> None:
    assert nic.port_id_of(SERVER) == port_id


def test_an_unreached_port_says_where_it_holds_its_server() -> None:
    port = UnreachedPort(id="p", addresses=("10.1.0.2",), place="cell east of network legacy")
    assert port.sentence() == "The port with address 10.1.0.2 holds the server to cell east of network legacy."
