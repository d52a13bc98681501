"""No request, however malformed, is answered by a 500, and what was refused has written nothing.

ROOST_FUZZ_SEEDS=N asks for N times REQUESTS requests; `make test` is content with few. A failure names its seed and the
request as Python text.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest
from starlette.applications import Starlette
from tests.invariants import ALWAYS, SETTLED
from tests.network.cloud import Cloud
from tests.network.described import check_described
from tests.network.malformed import ADMIN, BAD_CALLERS, CALLERS, KINDS, OWNER, Known, Maker, Sent
from tests.platform.asgi import Answer, send_raw

from roost.cli.serving.access import VERSION_PATHS
from roost.network.api import ABOUT, operations, routes, rules
from roost.network.rules.drift import PORT_UNOWNED
from roost.network.service import audit
from roost.network.service.reconciler import reconcile_once
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.mounts import mount
from roost.platform.openapi import describe
from roost.platform.policy import OsloPolicy
from roost.seams.network import Nic

SEEDS = int(os.environ.get("ROOST_FUZZ_SEEDS", "2"))
REQUESTS = 300
AT_ONCE = 8
WHO = {name for caller in [*CALLERS, *BAD_CALLERS] for name, _ in caller}
OPEN = frozenset(f"/network{path}" for path in VERSION_PATHS["network"])

Rows = list[dict[str, Any]]
BOOKKEEPING: Mapping[str, tuple[str, ...]] = {
    # A claim that was given back leaves the generations of its providers behind.
    "placement.provider": ("generation", "updated_at"),
    "placement.inventory": ("updated_at",),
    # Counters and leases of what is said to the ledger: saying the same twice is no change.
    "network.publication": ("wanted", "published", "lease_owner", "lease_until"),
}
"""Columns that a refused request may write."""
JOURNAL = {"placement.change", "placement.change_horizon"}
"""What indexes are to read again: a claim that was made and given back is in it twice."""
TABLES = "-- test.tables\nSELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('network', 'placement')"
NEVER = [*ALWAYS]
AT_THE_END = [
    "an intent is left",
    "a release is left",
    "a claim of addresses is not its port's addresses",
    "an address is still only a build's",
    "a port is still reserved by a build",
]


class Watch:
    """Looks at the database beside the API."""

    def __init__(self, database: Database, known: Known) -> None:
        self.database = database
        self.known = known
        self.state: tuple[Any, ...] = ()
        self.query = ""

    async def look(self) -> tuple[Any, ...]:
        """All that is kept, as something to compare."""
        async with self.database.connection() as connection:
            if not self.query:
                tables = [f"{row[0]}.{row[1]}" for row in await connection.fetch(TABLES)]
                tables = sorted({*tables} - JOURNAL)
                self.query = "-- test.everything\nSELECT " + ", ".join(map(digest_of, tables))
            row = await connection.fetchrow(self.query)
            state = tuple(row.items())
            if state != self.state:
                for kind in KINDS.values():
                    found = await connection.fetch(f"SELECT to_jsonb(t)::text FROM network.{kind} t ORDER BY id")
                    self.known.rows[kind] = [msgspec_row(one[0]) for one in found]
                hosts = await connection.fetch("SELECT name, physical_networks FROM network.host ORDER BY name")
                self.known.hosts = {name: list(physical) for name, physical in hosts}
        self.state = state
        return state

    async def check_books(self, names: list[str]) -> None:
        """None of these is found."""
        async with self.database.transaction(snapshot=True) as tx:
            for what in names:
                rows = await tx.fetch({**ALWAYS, **SETTLED}[what])
                assert rows == [], f"{what}: {rows[:3]}"

    async def expire_intents(self) -> None:
        """As if all had waited for long."""
        async with self.database.transaction() as tx:
            await tx.execute("-- test.expire\nUPDATE network.intent SET expires_at = now() - interval '1 hour'")


def msgspec_row(text: str) -> dict[str, Any]:
    """A row as JSON."""
    row: dict[str, Any] = msgspec.json.decode(text)
    return row


WRITER = [*ADMIN, (b"content-type", b"application/json")]


def digest_of(table: str) -> str:
    """What tells two states of a table apart."""
    row = "to_jsonb(t)" + "".join(f" - '{column}'" for column in BOOKKEEPING.get(table, ()))
    return f"""(SELECT md5(coalesce(string_agg(r, '|' ORDER BY r), '')) FROM (
        SELECT ({row})::text AS r FROM {table} t) x) AS "{table}" """


class Api:
    """The Network API with its policy, and callers who say who they are."""

    def __init__(self, cloud: Cloud) -> None:
        app = Starlette(routes=[mount("/network", routes(cloud.networks, OsloPolicy(rules())))])
        self.app = Authentication(app, noauth2, open_paths=OPEN)
        self.document = describe(ABOUT, operations(cloud.networks), server="/network")

    async def send(self, sent: Sent) -> Answer:
        """Its answer."""
        return await send_raw(self.app, sent.method, b"/network" + sent.target, sent.headers, sent.body)

    async def show(self, target: str, sent: Sent) -> Answer:
        """What the caller of another request sees there."""
        who = [(name, value) for name, value in sent.headers if name.lower() in WHO]
        return await send_raw(self.app, "GET", f"/network{target}".encode(), who)


async def populate(cloud: Cloud) -> None:
    """One of everything: routed and plain networks, a flat one with cells' pools, ports of all kinds, a build."""
    routed, segments = await cloud.routed("10.1.0.0/28", "10.2.0.0/28")
    await cloud.subnet(routed, "10.3.0.0/29", segments[0])
    plain = await cloud.plain("10.4.0.0/28", physical_network="datacentre")
    await cloud.plain("10.5.0.0/29")
    await cloud.flat(cell1="10.6.0.0/29", cell2="10.7.0.0/29")
    await cloud.network()
    await cloud.client.set_hosts({"h1": ["rack1", "datacentre"], "h2": ["rack2", "datacentre"], "h3": []})
    building = cloud.server(Nic(tag="0", network_id=routed.id), Nic(tag="1", network_id=plain.id))
    await cloud.ensure(building)
    bound = [cloud.server(Nic(tag="0", network_id=routed.id)) for _ in range(4)]
    for server in bound:
        (port,) = await cloud.ensure(server)
        assert await cloud.claim([port.id], segments[0].id)
        await cloud.bind(server, port, "h1", segments[0].id)
    active = [server.server_id for server in bound[1:]]  # the first is still being built
    await cloud.client.settle_ports(active)
    cloud.compute.existing.update(active)
    cloud.compute.unfinished.difference_update(active)
    async with cloud.networks.database.transaction() as tx:
        for kind in ("network", "subnet", "port"):
            await tx.execute(f"-- test.give\nUPDATE network.{kind} SET project_id = $1", OWNER)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_request_is_answered_by_a_500_and_what_is_refused_has_written_nothing(
    database: Database, cloud: Cloud, seed: int
) -> None:
    await populate(cloud)
    api, known = Api(cloud), Known()
    watch = Watch(database, known)
    before = await watch.look()
    maker = Maker(Random(seed), api.document, known)
    succeeded: Counter[str] = Counter()
    for number in range(REQUESTS):
        sent, owned = maker.request(), dict(known.rows)
        answer = await api.send(sent)
        after = await watch.look()
        what = f"seed {seed}, request {number}: {str(sent)[:3000]}\nanswered {str(answer)[:3000]}"
        assert (problem := wrong_with(sent, answer, alone=True)) is None, f"{problem}\n{what}"
        if answer.status >= 400 or sent.method not in ("POST", "PUT", "DELETE"):
            wrote = [new[0] for old, new in zip(before, after, strict=True) if old != new]
            assert not wrote, f"a refused request wrote to {wrote}\n{what}"
        else:
            assert (problem := trespass(sent, owned, known.rows)) is None, f"{problem}\n{what}"
        if answer.status < 300 and sent.method in ("POST", "PUT"):
            assert (problem := await not_as_answered(api, sent, answer)) is None, f"{problem}\n{what}"
        if answer.status < 300:
            succeeded[sent.method] += 1
        before = after
    changed = sum(count for method, count in succeeded.items() if method in ("POST", "PUT"))
    assert changed > REQUESTS / 15, f"too little gets through to mean anything: {succeeded}"
    await check_the_end(cloud, watch)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_requests_at_once_do_not_spoil_each_other(database: Database, cloud: Cloud, seed: int) -> None:
    await populate(cloud)
    api, known = Api(cloud), Known()
    watch, maker = Watch(database, known), Maker(Random(-seed - 1), api.document, known)
    for number in range(REQUESTS // AT_ONCE):
        await watch.look()
        batch = [maker.request() for _ in range(AT_ONCE)]
        answers = await asyncio.gather(*map(api.send, batch))
        for sent, answer in zip(batch, answers, strict=True):
            problem = wrong_with(sent, answer, alone=False)
            assert problem is None, f"{problem}\nseed {seed}, batch {number}: {str(sent)[:3000]}\n{str(answer)[:3000]}"
    await check_the_end(cloud, watch)


async def check_the_end(cloud: Cloud, watch: Watch) -> None:
    """The books agree at once; the reconciler leaves nothing that hangs; the audit finds nothing to say."""
    await watch.check_books(NEVER)
    cloud.compute.unfinished.clear()  # the builds were given up
    await watch.expire_intents()
    await reconcile_once(cloud.networks)
    await reconcile_once(cloud.networks)
    await watch.check_books([*NEVER, *AT_THE_END])
    drifts = await audit.AUDIT.run(cloud.networks, repairs=Repairs.NONE)
    # A client may say of a port that it is at whatever server; that there is none is told, not refused.
    assert [drift for drift in drifts if drift.kind is not PORT_UNOWNED] == []


def wrong_with(sent: Sent, answer: Answer, *, alone: bool) -> str | None:
    """What an answer should not be, in words; alone: nothing else was under way."""
    if answer.status >= 500 and (alone or not passing(answer)):
        return "a failure"
    if any(ord(character) < 32 for value in answer.headers.values() for character in value):
        return "a header in several lines"
    if answer.status == 401:
        return None if set(answer.body) == {"error"} else "not Keystone's refusal"
    if answer.status >= 400:
        refusal = answer.body.get("NeutronError") if isinstance(answer.body, dict) else None
        if not isinstance(refusal, dict) or {name: type(value) for name, value in refusal.items()} != REFUSAL:
            return "not NeutronError's shape"
        if not re.fullmatch("[A-Za-z0-9]+", refusal["type"]) or not refusal["message"]:
            return "a refusal without a type or a message"
    if sent.served and matches(sent) and answer.status != 405:
        try:
            check_described(sent.method, sent.target.partition(b"?")[0].decode(), answer.status, answer.body)
        except (AssertionError, jsonschema.ValidationError) as error:
            return f"not as the document has it: {str(error)[:1000]}"
    return None


REFUSAL = {"type": str, "message": str, "detail": str}


def passing(answer: Answer) -> bool:
    """Whether it is the refusal of what another request is at work on, which may be asked for again."""
    return answer.status == 503 and answer.body["NeutronError"]["type"] in ("PortChanged", "PublicationPending")


async def not_as_answered(api: Api, sent: Sent, answer: Answer) -> str | None:
    """In what the thing that was made or changed is not what was answered."""
    for one, many in zip(KINDS.values(), KINDS, strict=True):
        items = [answer.body[one]] if one in (answer.body or {}) else (answer.body or {}).get(many, [])
        for item in items:
            if isinstance(item, dict) and "id" in item:
                shown = await api.show(f"/v2.0/{many}/{item['id']}", sent)
                if shown.body != {one: item}:
                    return f"shown as {shown.body}"
    return None


def trespass(sent: Sent, before: Mapping[str, Rows], after: Mapping[str, Rows]) -> str | None:
    """What somebody changed who may not: others' resources on others' networks, or anything without being a member."""
    headers = {name.lower(): value for name, value in reversed(sent.headers)}  # of one that comes twice, the first
    roles = headers.get(b"x-roles", b"").lower().split(b",")
    if any(name in headers for name in (b"x-project-id", b"openstack-system-scope")):
        return None
    if b"admin" in roles or b"service" in roles:
        return None
    own = headers.get(b"x-auth-token", b"").partition(b":")[2].decode("latin-1")
    networks = {row["id"] for rows in (before["network"], after["network"]) for row in rows if row["project_id"] == own}
    for kind in KINDS.values():
        then, now = ({row["id"]: row for row in rows[kind]} for rows in (before, after))
        for row in [
            row for id_ in then.keys() | now for row in (then.get(id_), now.get(id_)) if then.get(id_) != now.get(id_)
        ]:
            its = row and (row.get("project_id") == own or row.get("network_id", row["id"]) in networks)
            if row and (b"member" not in roles or not its):
                return f"{own} changed the {kind} {row['id']} of {row.get('project_id')}"
    return None


def matches(sent: Sent) -> bool:
    """Whether the target is surely one of the path's, with nothing odd in it."""
    place = sent.target.partition(b"?")[0]
    pattern = re.sub(r"{\w+}", "[^/]+", sent.path)
    odd = any(word in place for word in (b"%", b"..", b";", b"/."))
    return not odd and re.fullmatch(pattern, place.decode()) is not None


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/v2.0/subnets", '{"subnet":{"network_id":"%s","cidr":"10.9.0.0/255.255.255.0"}}', 201),
        ("GET", "/v2.0/networks?segments=red", "", 200),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_what_once_failed_is_answered(cloud: Cloud, method: str, target: str, body: str, status: int) -> None:
    network = await cloud.network()
    sent = Sent(target, method, target.encode(), WRITER, [body.replace("%s", network.id).encode()])
    answer = await Api(cloud).send(sent)
    assert answer.status == status, answer


async def test_a_port_refused_for_its_mac_address_holds_no_claim(cloud: Cloud, database: Database) -> None:
    network = await cloud.plain()
    wrong = f'{{"port":{{"network_id":"{network.id}","mac_address":"fa163e000001"}}}}'
    answer = await Api(cloud).send(Sent("/v2.0/ports", "POST", b"/v2.0/ports", WRITER, [wrong.encode()]))
    assert answer.status == 400, answer
    await Watch(database, Known()).check_books(AT_THE_END)
    assert (await cloud.used(network.id))[1] == 0


async def test_what_has_no_physical_network_is_reached_by_a_host_that_reaches_none(cloud: Cloud) -> None:
    network = await cloud.plain()
    await cloud.client.set_hosts({"h3": []})
    port = f'{{"port":{{"network_id":"{network.id}","binding:host_id":"h3"}}}}'
    answer = await Api(cloud).send(Sent("/v2.0/ports", "POST", b"/v2.0/ports", WRITER, [port.encode()]))
    assert (answer.status, len(answer.body["port"]["fixed_ips"])) == (201, 1), answer
    assert await audit.AUDIT.run(cloud.networks, repairs=Repairs.NONE) == []
