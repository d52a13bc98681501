"""Which ports an agent is told of with a server that is deleted."""

import pytest

from roost.compute.old_agents.rules.ports import ports_to_give_back
from roost.seams.compute import ServerPort
from roost.seams.network import Nic

SERVER = "5b5c0e4e-2fa1-4a57-9d53-0016d3cca427"
NICS = (Nic(tag="0", network_id="a network"), Nic(tag="1", port_id="a user's port"))
MADE = NICS[0].port_id_of(SERVER)


@pytest.mark.parametrize(
    ("port_id", "preserve", "told"),
    [
        (MADE, False, True),
        (MADE, True, True),
        ("a user's port", True, True),
        ("a user's port", False, False),  # the info is wrong
        ("attached later", True, True),
        ("attached later", False, False),  # Roost's, or the info is wrong
        (None, False, False),  # on a flat network
    ],
)
def test_an_agent_is_told_to_delete_only_ports_that_were_made_for_a_nic(
    port_id: str | None, preserve: bool, told: bool
) -> None:
    port = ServerPort(
        port_id=port_id, tag="", network_id="n", network_name="", mac_address="", addresses=(),
        preserve_on_delete=preserve,
    )  # fmt: skip
    assert ports_to_give_back(SERVER, (port,), NICS) == ((port,) if told else ())
