"""Which pool of a flat network the claim of a server is for which of its NICs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roost.conductor.allocate import with_claims

from roost.seams.network import FlatNic
from roost.seams.placement import IPV4_ADDRESS, ConsumerState


def a_nic(tag: str, *pools: str, on: str | None = None) -> FlatNic:
    """A NIC that may be in these pools; on: the one that its address is on."""
    address = None if on is None else "10.0.0.1"
    return FlatNic(tag=tag, network_id="n", pools=pools, address=address, provider_uuid=on)


def a_claim(**amounts: int) -> ConsumerState:
    allocations = {uuid: {IPV4_ADDRESS: amount} for uuid, amount in amounts.items()}
    return ConsumerState(
        consumer_uuid="s", generation=1, consumer_type="INSTANCE", project_id="p", user_id="u",
        allocations={**allocations, "host": {"VCPU": 1}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("nics", "claimed", "pools"),
    [
        pytest.param([a_nic("0", "a", "b")], {}, [None], id="nothing is claimed"),
        pytest.param([a_nic("0", "a", "b")], {"b": 1}, ["b"], id="the pool that is claimed"),
        pytest.param([a_nic("0", "a", "b")], {"c": 1}, [None], id="a pool that it may not be in"),
        pytest.param([a_nic("0", "a"), a_nic("1", "a")], {"a": 1}, ["a", None], id="one address for two NICs"),
        pytest.param([a_nic("0", "a"), a_nic("1", "a")], {"a": 2}, ["a", "a"], id="two addresses for two NICs"),
        pytest.param([a_nic("0", "a", "b"), a_nic("1", "a")], {"a": 1, "b": 1}, ["b", "a"],
                     id="who has one pool goes first"),
        pytest.param([a_nic("0", "a"), a_nic("1", "a", "b", on="a")], {"a": 1}, [None, "a"],
                     id="who has an address goes first of all"),
        pytest.param([a_nic("0", "a", "b", on="a")], {"b": 1}, [None], id="an address whose claim is elsewhere"),
    ],
)  # fmt: skip
def test_the_claim_is_for_the_nics_that_have_no_other_pool(
    nics: list[FlatNic], claimed: dict[str, int], pools: list[str | None]
) -> None:
    known = with_claims(nics, a_claim(**claimed))
    assert [nic.tag for nic in known] == [nic.tag for nic in nics]
    assert [nic.provider_uuid for nic in known] == pools
    assert all((nic.address is None) or nic.provider_uuid for nic in known), "no address without a claim"


def test_without_a_claim_there_is_no_address() -> None:
    (nic,) = with_claims([a_nic("0", "a", on="a")], None)
    assert (nic.provider_uuid, nic.address, nic.pools) == (None, None, ("a",))


def test_an_address_with_its_claim_stays() -> None:
    (nic,) = with_claims([a_nic("0", "a", on="a")], a_claim(a=1))
    assert (nic.provider_uuid, nic.address) == ("a", "10.0.0.1")


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, unique=True), max_size=4),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
)
def test_no_more_is_given_than_is_claimed(pools: list[list[str]], claimed: dict[str, int]) -> None:
    nics = [a_nic(str(number), *names) for number, names in enumerate(pools)]
    given_ = [nic.provider_uuid for nic in with_claims(nics, a_claim(**claimed))]
    assert all(given_.count(name) <= claimed.get(name, 0) for name in "abc")
    for pool, names in zip(given_, pools, strict=True):
        assert pool is None or pool in names
        if pool is None:
            assert all(given_.count(name) == claimed.get(name, 0) for name in names), "what it may have is all given"
