"""No request, however malformed, is answered by a 500 or leaves the ledger half-written.

ROOST_FUZZ_SEEDS=N asks for N times REQUESTS requests; `make test` is content with few. A failure names its seed and the
request as Python text.
"""

import asyncio
import os
from random import Random
from typing import Any

import jsonschema
import pytest
from tests.invariants import ALWAYS
from tests.placement.malformed import CALLERS, HIGHEST, Known, Maker, Sent
from tests.placement.populated import AGGREGATE, NOTHING, OTHER_HOST, Api, populate
from tests.platform.asgi import Answer

from roost.placement.api import answer_schemas, operations, rules
from roost.placement.api.bodies import FORMATS, SHOWN_MAX
from roost.placement.api.openapi import ABOUT
from roost.placement.service.ledger import Ledger
from roost.platform.auth import Unrestricted
from roost.platform.database import Database
from roost.platform.openapi import refusals
from roost.platform.policy import OsloPolicy

SEEDS = int(os.environ.get("ROOST_FUZZ_SEEDS", "3"))
REQUESTS = 400
AT_ONCE = 8
NO_LEDGER: Any = None
OPERATIONS = operations(NO_LEDGER, Unrestricted())
CODES_SINCE = (1, 23)

TABLES = (
    *("provider", "inventory", "provider_trait", "provider_aggregate", "allocation", "consumer"),
    *("resource_class", "trait"),
)
EVERYTHING = "-- test.everything\nSELECT " + ", ".join(
    f"(SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM placement.{table} t) AS {table}"
    for table in TABLES
)
MUST_NOT_BE = [
    "use is not the sum of the allocations",
    "an allocation has no inventory or no consumer",
    "a consumer holds nothing",
]


@pytest.fixture
async def api(database: Database) -> Api:
    return await populate(database)


class Watch:
    """Looks at the ledger beside the API."""

    def __init__(self, database: Database, known: Known) -> None:
        self.database = database
        self.known = known
        self.generations: dict[int, int] = {}
        self.state: tuple[Any, ...] = ()

    async def look(self) -> tuple[Any, ...]:
        """All that the ledger holds, as something to compare; raises where a generation fell.

        Looked up by `id`: a provider deleted and made anew under its UUID between two looks begins anew.
        """
        async with self.database.connection() as connection:
            state = tuple(await connection.fetchrow(EVERYTHING))
            if state != self.state:
                providers = dict(await connection.fetch("SELECT uuid::text, generation FROM placement.provider"))
                consumers = dict(await connection.fetch("SELECT uuid::text, generation FROM placement.consumer"))
                generations = dict(await connection.fetch("SELECT id, generation FROM placement.provider"))
                fell = {
                    id: (self.generations[id], generation)
                    for id, generation in generations.items()
                    if generation < self.generations.get(id, 0)
                }
                assert not fell, f"generations of providers fell, by id: {fell}"
                self.generations = generations
                self.known.providers, self.known.consumers = providers, consumers
        self.state = state
        return state

    async def check_books(self) -> None:
        """The invariants; capacity is none of them, as an inventory may shrink below its use."""
        async with self.database.transaction(snapshot=True) as tx:
            for what in MUST_NOT_BE:
                assert await tx.fetch(ALWAYS[what]) == [], what


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_request_is_answered_by_a_500_or_half_done(database: Database, seed: int) -> None:
    api, known = await populate(database, OsloPolicy(rules())), Known()
    watch = Watch(database, known)
    before = await watch.look()
    maker = Maker(Random(seed), OPERATIONS, known)
    for number in range(REQUESTS):
        sent = maker.request()
        answer = await api.send(sent.method, sent.target, sent.headers, sent.body)
        after = await watch.look()
        what = f"seed {seed}, request {number}: {str(sent)[:3000]}\nanswered {str(answer)[:3000]}"
        assert wrong_with(sent, answer) is None, f"{wrong_with(sent, answer)}\n{what}"
        if answer.status >= 400 or sent.method not in ("POST", "PUT", "DELETE"):
            assert after == before, f"something was written\n{what}"
        before = after
    await watch.check_books()
    await assert_the_index_is_the_ledger(api, Api.on(Ledger(database)), known)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_requests_at_once_do_not_spoil_each_other(database: Database, seed: int) -> None:
    """Claims that come together share a transaction, readers an index: the worst neighbour must not matter."""
    api, known = await populate(database, OsloPolicy(rules())), Known()
    watch, maker = Watch(database, known), Maker(Random(-seed - 1), OPERATIONS, known)
    for number in range(REQUESTS // AT_ONCE):
        await watch.look()
        batch = [maker.request() for _ in range(AT_ONCE)]
        answers = await asyncio.gather(*(api.send(sent.method, sent.target, sent.headers, sent.body) for sent in batch))
        for sent, answer in zip(batch, answers, strict=True):
            problem = wrong_with(sent, answer)
            assert problem is None, f"{problem}\nseed {seed}, batch {number}: {str(sent)[:3000]}\n{str(answer)[:3000]}"
    await watch.look()
    await watch.check_books()
    await assert_the_index_is_the_ledger(api, Api.on(Ledger(database)), known)


DEEP = b'{"resource_provider_generation":0,"inventories":' + b'{"a":' * 300 + b"1" + b"}" * 301
MANY = b'{"resource_provider_generation":0,"aggregates":[' + b"0," * 300_000 + b"0]}"
INVENTORIES = f"/resource_providers/{OTHER_HOST}/inventories"


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", b"/resource_classes/a%00b", b"", 404),
        ("DELETE", b"/traits/a%00b", b"", 404),
        ("GET", b"/traits%0A", b"", 404),
        ("GET", b"/resource_providers/a%0Ab/usages", b"", 404),
        ("GET", b"/traits?name=\xff", b"", 400),
        ("GET", b"/traits?name=in:a%00b", b"", 400),
        ("PUT", b"/traits/CUSTOM_A%0A", b"", 400),
        ("PUT", b"/resource_classes/CUSTOM_A%0A", b"", 400),
        ("POST", b"/resource_classes", b'{"name":"CUSTOM_A\\n"}', 400),
        ("FROB", b"/traits", b"", 405),
        ("PUT", INVENTORIES.encode(), DEEP, 400),
        ("PUT", INVENTORIES.encode(), b"[" * 900 + b"]" * 900, 400),
        ("PUT", f"/resource_providers/{OTHER_HOST}/aggregates".encode(), MANY, 400),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_what_once_failed_is_refused(api: Api, method: str, target: bytes, body: bytes, status: int) -> None:
    headers = [
        (b"openstack-api-version", b"placement 1.39"),
        (b"host", b"[::1"),
        (b"content-type", b"application/json"),
    ]
    answer = await api.send(method, target, headers, [body])
    assert answer.status == status, answer
    assert first_problem(answer.body, answer_schemas.ERRORS) is None
    assert len(answer.body["errors"][0]["detail"]) < 2 * SHOWN_MAX


async def test_a_reshape_makes_no_inventory_of_less_than_nothing(api: Api) -> None:
    """Source: PUT inventories, which refuses it too; upstream's reshaper lets it pass."""
    reserved = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 4, "reserved": 10}}}
    answer = await api.call("POST", "/reshaper", {"inventories": {OTHER_HOST: reserved}, "allocations": {}})
    assert answer.status == 400
    assert "The reserved value is greater than total" in answer.body["errors"][0]["detail"]


async def test_a_ratio_that_bursts_64_bits_leaves_room_for_every_claim(api: Api) -> None:
    inventory = {"total": 2**31 - 1, "allocation_ratio": 3.4e38}
    replaced = {"resource_provider_generation": 1, "inventories": {"VCPU": inventory}}
    assert (await api.call("PUT", INVENTORIES, replaced)).status == 200
    claim = {"allocations": {OTHER_HOST: {"resources": {"VCPU": 2**31 - 1}}}, "project_id": "p", "user_id": "u"}
    for consumer in (NOTHING, AGGREGATE):
        body = {**claim, "consumer_generation": None, "consumer_type": "INSTANCE"}
        assert (await api.call("PUT", f"/allocations/{consumer}", body)).status == 204
    found = await api.call("GET", f"/allocation_candidates?resources=VCPU:{2**31 - 1}&in_tree={OTHER_HOST}")
    assert len(found.body["allocation_requests"]) == 1


def wrong_with(sent: Sent, answer: Answer) -> str | None:
    """What an answer should not be, in words."""
    operation = OPERATIONS[sent.path].get(sent.method)
    if answer.status >= 500:
        return "a failure"
    if any(ord(character) < 32 for value in answer.headers.values() for character in value):
        return "a header in several lines"
    if answer.status >= 400:
        return wrong_with_refusal(sent, answer)
    if sent.version != HIGHEST or operation is None or not matches(sent):
        return None
    if answer.status not in (operation.status, *operation.other_statuses):
        return "an undeclared success"
    if operation.result is not None and (problem := first_problem(answer.body, operation.result)):
        return f"not the declared answer: {problem}"
    return None


def wrong_with_refusal(sent: Sent, answer: Answer) -> str | None:
    """A refusal has upstream's body, and one of the statuses that its operation declares; a 401 has Keystone's."""
    if answer.status == 401:
        return None if set(answer.body) == {"error"} else "not Keystone's refusal"
    accepts = [value for name, value in sent.headers if name.lower() == b"accept"]
    if answer.headers.get("content-type") == "application/json":
        if problem := first_problem(answer.body, answer_schemas.ERRORS):
            return f"not an error body: {problem}"
        (error,) = answer.body["errors"]
        if error["status"] != answer.status:
            return "two statuses"
        if sent.version is not None and ("code" in error) != (sent.version >= CODES_SINCE):
            return "a code at the wrong microversion"
    elif not accepts or b"json" in accepts[0]:
        return "an error that is not JSON"
    operation = OPERATIONS[sent.path].get(sent.method)
    if operation is not None and sent.version == HIGHEST and matches(sent):
        return None if answer.status in refusals(ABOUT, sent.path, operation) else "an undeclared refusal"
    return None


def matches(sent: Sent) -> bool:
    """Whether the target is surely one of the path's: as many segments, none of them odd."""
    place = sent.target.partition(b"?")[0]
    return place.count(b"/") == sent.path.count("/") and not any(odd in place for odd in (b"%", b"..", b";", b"/."))


def first_problem(body: Any, schema: Any) -> str | None:
    """The first thing in which a body is not as a schema has it."""
    validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
    return next((error.message[:500] for error in validator.iter_errors(body)), None)


async def assert_the_index_is_the_ledger(api: Api, fresh: Api, known: Known) -> None:
    """What this process answers after all that is what one answers that reads the ledger for the first time."""
    headers = [(b"openstack-api-version", b"placement 1.39"), *CALLERS[0]]
    for uuid in known.providers:
        for below in ("", "/inventories", "/usages", "/traits", "/aggregates"):
            target = f"/resource_providers/{uuid}{below}".encode()
            assert (await api.send("GET", target, headers)).body == (await fresh.send("GET", target, headers)).body
