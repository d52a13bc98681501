"""Which networks a project may put servers on: every case."""

import itertools

from roost.compute.model.server import NicAsked, Permissions
from roost.compute.rules.permissions import find_refusal, sees_network
from roost.seams.network import NetworkView


def network(*, own: bool, shared: bool, external: bool) -> NetworkView:
    return NetworkView(
        id="n", name="n", routed=False, segments=(), project_id="mine" if own else "theirs", shared=shared,
        external=external,
    )  # fmt: skip


def test_a_project_sees_its_own_shared_and_external_networks() -> None:
    for own, shared, external, others in itertools.product((False, True), repeat=4):
        view = network(own=own, shared=shared, external=external)
        seen = sees_network(view, "mine", Permissions(others=others, external=False))
        assert seen == (own or shared or external or others)


def test_of_an_external_network_that_is_not_shared_it_has_no_nic_and_of_others_no_address() -> None:
    for own, shared, external, others, attach, fixed in itertools.product((False, True), repeat=6):
        nic = NicAsked(network_id="n", fixed_ip="10.0.0.7" if fixed else None)
        view = network(own=own, shared=shared, external=external)
        refusal = find_refusal([nic], {"n": view}, "mine", Permissions(others=others, external=attach))
        if external and not (own or shared or attach):
            assert refusal == "It is not allowed to create an interface on external network n"
        elif fixed and not (own or others):
            assert refusal == "Only the project that owns network n may choose an address (fixed_ip 10.0.0.7)."
        else:
            assert refusal is None


def test_a_port_decides_alone() -> None:
    nic = NicAsked(network_id="n", port_id="p")
    view = network(own=False, shared=False, external=True)
    assert find_refusal([nic], {"n": view}, "mine", Permissions(others=False, external=False)) is None
