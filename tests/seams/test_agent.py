import msgspec
import pytest

from roost.seams.agent import (
    AgentIdentity,
    GuestAttempt,
    GuestOrder,
    GuestReport,
    HeldElsewhere,
    OrderId,
    PollBody,
    Polled,
    Refusal,
    ReportsAnswered,
    ReportsBody,
)

SERVER = "11111111-1111-1111-1111-111111111111"
AGENT = AgentIdentity(id="a0000000-0000-0000-0000-00000000000a")


@pytest.mark.parametrize(
    "words",
    [
        GuestAttempt(server_id=SERVER, host="h1", attempt=2),
        GuestReport(server_id=SERVER, host="h1", attempt=2, state="running"),
        GuestOrder(server_id=SERVER, host="h1", attempt=2, desired="running"),
    ],
)
def test_a_guest_is_a_server_on_a_host_whatever_the_attempt(words: GuestAttempt) -> None:
    assert words.key == (SERVER, "h1")


def test_an_order_is_told_from_others_by_what_it_asks_for_and_not_by_its_servers_size() -> None:
    small, large = (GuestOrder(server_id=SERVER, host="h1", attempt=2, desired="absent", vcpus=n) for n in (1, 8))
    assert small.id == large.id == OrderId(server_id=SERVER, host="h1", attempt=2, desired="absent")
    assert len({small.id, large.id}) == 1


def test_a_host_that_another_agent_serves_says_so_in_a_sentence() -> None:
    held = HeldElsewhere(host="h1", holder="b (the other)", since="2026-01-01T00:00:00+00:00")
    assert held.sentence() == "host h1 is served by agent b (the other) since 2026-01-01T00:00:00+00:00"


def test_words_of_another_release_are_read_with_what_is_known_of_them() -> None:
    newer = b'{"orders": [], "elsewhere": [{"host": "h1", "why": "x"}], "lease_s": 20, "held_s": 0, "as_of": 1, "x": 1}'
    polled = msgspec.json.decode(newer, type=Polled)
    assert (polled.orders, polled.elsewhere, polled.lease_s) == ((), (HeldElsewhere(host="h1"),), 20)
    older = msgspec.json.encode({"agent": {"id": AGENT.id}, "hosts": None})
    assert msgspec.json.decode(older, type=PollBody) == PollBody(agent=AGENT, hosts=None)


@pytest.mark.parametrize(
    ("said", "refusal"),
    [("superseded", Refusal.SUPERSEDED), ("no-lease", Refusal.NO_LEASE), ("later", Refusal.UNKNOWN)],
)
def test_a_refusal_that_an_older_agent_does_not_know_leaves_the_guest_as_it_is(said: str, refusal: Refusal) -> None:
    answer = {"server_id": SERVER, "host": "h1", "accepted": False, "refusal": said}
    body = msgspec.json.encode({"reports": [answer]})
    assert msgspec.json.decode(body, type=ReportsAnswered).reports[0].refusal is refusal


@pytest.mark.parametrize("change", [{"server_id": "x"}, {"attempt": -1}, {"attempt": 2**31}, {"state": "fine"}])
def test_a_report_out_of_bounds_is_not_read(change: dict[str, object]) -> None:
    report = {"server_id": SERVER, "host": "h1", "attempt": 1, "state": "begun"}
    assert msgspec.convert({"agent": {"id": AGENT.id}, "reports": [report]}, ReportsBody).reports[0].key == (
        SERVER,
        "h1",
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"agent": {"id": AGENT.id}, "reports": [report | change]}, ReportsBody)
