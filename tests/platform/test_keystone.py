"""Callers by Keystone's tokens, against a Keystone over real HTTP: what is believed, how long, and in an outage."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from tests.authority import Authority
from tests.platform.asgi import ask, say_who
from tests.platform.fake_keystone import DOMAIN, FakeKeystone

from roost.platform import keystone as keystone_file
from roost.platform.auth import AuthenticationUnavailable, Caller, Unauthorized
from roost.platform.authentication import Authentication
from roost.platform.errors import BadRequest
from roost.platform.keystone import (
    ADDRESS_CONNECTIONS_MAX,
    CONNECTIONS_MAX,
    DOWN_PAUSE_S,
    REFUSED_CACHE_S,
    TOKENS_FAILED_MAX,
    Keystone,
    credentials_body,
)
from roost.platform.metrics import TOKENS
from roost.platform.settings import KeystoneSettings, PlacementClientSettings

ENOUGH = {"username": "roost", "password": "secret"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeKeystone]:
    server = FakeKeystone()
    await server.start()
    yield server
    await server.stop()


def asking(fake: FakeKeystone, **options: Any) -> Keystone:
    given: dict[str, Any] = {"auth_url": fake.url, **ENOUGH, "token_cache_s": 100, "timeout_s": 5} | options
    settings = KeystoneSettings(**given)
    return Keystone(settings, clock=fake.world.clock, now=fake.world.now)


@pytest.fixture
async def keystone(fake: FakeKeystone) -> AsyncIterator[Keystone]:
    client = asking(fake)
    yield client
    await client.close()


def who(keystone: Keystone, token: str, service: str | None = None) -> Any:
    """The caller of a request, awaitable."""
    headers = {"X-Auth-Token": token} | ({"X-Service-Token": service} if service else {})
    return keystone.identify(Headers(headers))


async def test_a_caller_has_its_ids_and_roles(fake: FakeKeystone, keystone: Keystone) -> None:
    assert await who(keystone, fake.token("admin", "member")) == Caller(
        "u1", "p1", ("admin", "member"), user_domain_id="default", project_domain_id="default"
    )
    of_system = await who(keystone, fake.token("admin", system={"all": True}))
    assert (of_system.project_id, of_system.system_scope) == (None, "all")
    of_domain = await who(keystone, fake.token("admin", domain=DOMAIN))
    assert (of_domain.project_id, of_domain.domain_id) == (None, "default")


@pytest.mark.parametrize("token", ["", "nosuch", " "])
async def test_no_token_or_a_wrong_one_is_unauthorized(keystone: Keystone, token: str) -> None:
    with pytest.raises(Unauthorized):
        await who(keystone, token)


@pytest.mark.parametrize("token", ["a\0b", "a\rX-Subject-Token: b", "a b", "t\xf6ken"])
async def test_what_cannot_be_a_token_is_not_asked_about(fake: FakeKeystone, keystone: Keystone, token: str) -> None:
    with pytest.raises(Unauthorized):
        await who(keystone, token)
    assert fake.asked == {}


async def test_a_token_is_validated_once_and_again_after_its_time(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin")
    for _ in range(3):
        await who(keystone, token)
    assert fake.asked == {"issue": 1, "validate": 1}
    fake.world.seconds += 100
    await who(keystone, token)
    assert fake.asked == {"issue": 1, "validate": 2}


async def test_a_revoked_token_counts_no_longer_than_it_is_remembered(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin")
    await who(keystone, token)
    del fake.tokens[token]
    fake.world.seconds += 99
    await who(keystone, token)
    fake.world.seconds += 1
    with pytest.raises(Unauthorized):
        await who(keystone, token)


async def test_a_remembered_token_ends_with_its_expiry(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin", life=timedelta(seconds=10))
    await who(keystone, token)
    fake.world.seconds += 10
    with pytest.raises(Unauthorized):
        await who(keystone, token)


async def test_a_token_that_keystone_passes_but_has_expired_is_refused(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin", life=timedelta(seconds=-1))
    fake._expired = lambda _document: False  # its clock is behind
    with pytest.raises(Unauthorized):
        await who(keystone, token)


async def test_a_refusal_is_remembered_briefly(fake: FakeKeystone, keystone: Keystone) -> None:
    for _ in range(5):
        with pytest.raises(Unauthorized):
            await who(keystone, "early")
    assert fake.asked["validate"] == 1
    fake.tokens["early"] = fake.tokens[fake.token("admin")]
    fake.world.seconds += REFUSED_CACHE_S
    assert (await who(keystone, "early")).roles == ("admin",)


async def test_a_storm_of_one_token_is_one_validation(fake: FakeKeystone, keystone: Keystone) -> None:
    fake.delay_s = 0.05
    token = fake.token("admin")
    callers = await asyncio.gather(*(who(keystone, token) for _ in range(300)))
    assert len(set(callers)) == 1
    assert fake.asked == {"issue": 1, "validate": 1}
    refused = await asyncio.gather(*(who(keystone, "nosuch") for _ in range(300)), return_exceptions=True)
    assert {type(error) for error in refused} == {Unauthorized}
    assert fake.asked["validate"] == 2


async def test_who_waits_for_a_validation_is_not_lost_with_who_began_it(fake: FakeKeystone, keystone: Keystone) -> None:
    fake.delay_s = 0.2
    token = fake.token("admin")
    first = asyncio.create_task(who(keystone, token))
    second = asyncio.create_task(who(keystone, token))
    while not fake.asked["validate"]:
        await asyncio.sleep(0.01)  # until the fake, on a socket, has the first question
    first.cancel()
    assert (await second).roles == ("admin",)
    assert fake.asked["validate"] == 2


async def test_different_tokens_are_validated_side_by_side(fake: FakeKeystone, keystone: Keystone) -> None:
    fake.delay_s = 0.1
    tokens = [fake.token("admin", user=f"u{number}") for number in range(20)]
    started = asyncio.get_running_loop().time()
    callers = await asyncio.gather(*(who(keystone, token) for token in tokens))
    assert [caller.user_id for caller in callers] == [f"u{number}" for number in range(20)]
    assert asyncio.get_running_loop().time() - started < 1.5  # one after the other: 2 s


async def test_what_is_remembered_has_a_limit_and_bad_tokens_drive_out_no_good_ones(
    fake: FakeKeystone, keystone: Keystone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keystone_file, "REMEMBERED_MAX", 3)
    good = [fake.token("admin") for _ in range(4)]
    for token in good[:3]:
        await who(keystone, token)
    for number in range(10):
        with pytest.raises(Unauthorized):
            await who(keystone, f"bad{number}")
    assert (len(keystone._good), len(keystone._refused)) == (3, 3)
    asked = fake.asked["validate"]
    await who(keystone, good[0])
    assert fake.asked["validate"] == asked
    await who(keystone, good[3])  # drives out the one that was used longest ago, which is no longer the first
    await who(keystone, good[0])
    assert fake.asked["validate"] == asked + 1
    await who(keystone, good[1])
    assert fake.asked["validate"] == asked + 2


async def test_an_own_token_is_renewed_before_it_expires(fake: FakeKeystone, keystone: Keystone) -> None:
    fake.own_life_s = 1000
    await who(keystone, fake.token("admin"))
    fake.world.seconds += 899
    await who(keystone, fake.token("admin"))
    assert fake.asked["issue"] == 1
    fake.world.seconds += 1
    await asyncio.gather(*(who(keystone, fake.token("admin")) for _ in range(10)))
    assert fake.asked["issue"] == 2


async def test_an_own_token_that_was_revoked_is_renewed_at_once(fake: FakeKeystone, keystone: Keystone) -> None:
    await who(keystone, fake.token("admin"))
    for text, document in list(fake.tokens.items()):
        if document["user"]["id"] == "roost":
            del fake.tokens[text]
    tokens = [fake.token("admin") for _ in range(10)]
    await asyncio.gather(*(who(keystone, token) for token in tokens))
    assert fake.asked["issue"] == 2


async def test_a_service_may_pass_on_what_expired_meanwhile(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("member", life=timedelta(seconds=10))
    nova = fake.token("service", user="nova")
    fake.world.seconds += 11
    with pytest.raises(Unauthorized):
        await who(keystone, token)
    caller = await who(keystone, token, nova)
    assert (caller.user_id, caller.roles) == ("u1", ("member",))
    assert (caller.service.user_id, caller.service.roles) == ("nova", ("service",))
    with pytest.raises(Unauthorized):
        await who(keystone, token)


async def test_a_service_token_must_be_one(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin")
    for service in (fake.token("admin", "member"), "nosuch", fake.token("service", life=timedelta(seconds=-1))):
        with pytest.raises(Unauthorized):
            await who(keystone, token, service)
    with pytest.raises(Unauthorized):
        await who(keystone, "", fake.token("service"))


async def test_other_roles_may_make_a_service(fake: FakeKeystone) -> None:
    client = asking(fake, service_token_roles=("glue", "nova"))
    assert (await who(client, fake.token("member"), fake.token("nova"))).service is not None
    with pytest.raises(Unauthorized):
        await who(client, fake.token("member"), fake.token("service"))
    await client.close()


async def test_an_application_credential_is_as_good_as_a_password(fake: FakeKeystone) -> None:
    client = asking(
        fake, username="", password="", application_credential_id="cred", application_credential_secret="secret"
    )
    assert (await who(client, fake.token("admin"))).user_id == "u1"
    await client.close()


async def test_an_outage_is_503_for_new_tokens_and_heals_by_itself(fake: FakeKeystone, keystone: Keystone) -> None:
    known, new = fake.token("admin"), fake.token("member")
    await who(keystone, known)
    await fake.stop()
    app = Authentication(say_who, keystone.identify, open_paths=frozenset({"/"}), challenge=keystone.challenge)
    refused = await asyncio.gather(*(ask(app, "/x", {"X-Auth-Token": new}) for _ in range(50)))
    assert {(answer.status, answer.headers["retry-after"]) for answer in refused} == {(503, "1")}
    assert fake.url not in str(refused[0].body)
    assert (await ask(app, "/x", {"X-Auth-Token": known})).status == 200
    assert (await ask(app, "/")).status == 200
    assert (await ask(app, "/x")).headers["www-authenticate"] == f'Keystone uri="{fake.url}"'

    await fake.start()
    fake.world.seconds += DOWN_PAUSE_S
    assert (await ask(app, "/x", {"X-Auth-Token": new})).status == 200


async def test_while_keystone_is_down_it_is_asked_once_in_a_while(fake: FakeKeystone, keystone: Keystone) -> None:
    await who(keystone, fake.token("admin"))
    fake.status = 500
    tokens = [fake.token("admin") for _ in range(50)]
    for token in tokens:
        with pytest.raises(AuthenticationUnavailable):
            await who(keystone, token)
    assert fake.asked["validate"] == 1 + TOKENS_FAILED_MAX
    fake.world.seconds += DOWN_PAUSE_S
    fake.status = None
    assert (await who(keystone, tokens[0])).roles == ("admin",)


@pytest.mark.parametrize("status", [500, 503, 429, 302, 401, 403])
async def test_one_token_that_keystone_stumbles_over_shuts_out_nobody_else(
    fake: FakeKeystone, keystone: Keystone, status: int
) -> None:
    bad, others = fake.token("member"), [fake.token("member") for _ in range(49)]
    fake.status_by_token[bad] = status
    for other in others:
        for _ in range(3):
            with pytest.raises(AuthenticationUnavailable):
                await who(keystone, bad)
        assert (await who(keystone, other)).roles == ("member",)
    assert fake.asked["validate"] <= (3 if status == 401 else 2) * 49 + 1  # at 401 Roost's own token is renewed
    fake.world.seconds += DOWN_PAUSE_S
    del fake.status_by_token[bad]
    assert (await who(keystone, bad)).roles == ("member",)


@pytest.mark.parametrize("status", [400, 404, 405, 413, 414, 422, 431])
async def test_a_token_that_keystone_refuses_is_the_callers_fault(
    fake: FakeKeystone, keystone: Keystone, status: int
) -> None:
    bad, other = fake.token("member"), fake.token("member")
    fake.status_by_token[bad] = status
    for _ in range(5):
        with pytest.raises(Unauthorized):
            await who(keystone, bad)
    assert (await who(keystone, other)).roles == ("member",)


async def test_one_address_leaves_others_their_validations(fake: FakeKeystone, keystone: Keystone) -> None:
    await who(keystone, fake.token("admin"))
    fake.delay_s = 30
    many = [
        asyncio.create_task(keystone.identify(Headers({"X-Auth-Token": fake.token("member")}), "192.0.2.1"))
        for _ in range(3 * CONNECTIONS_MAX)
    ]
    async with asyncio.timeout(10):
        while fake.asked["validate"] < 1 + ADDRESS_CONNECTIONS_MAX:
            await asyncio.sleep(0.01)
        fake.delay_s = 0
        assert (await keystone.identify(Headers({"X-Auth-Token": fake.token("admin")}), "192.0.2.2")).user_id == "u1"
    assert fake.asked["validate"] == 2 + ADDRESS_CONNECTIONS_MAX
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)


@pytest.mark.parametrize("status", [302, 403, 429, 500, 503])
async def test_any_other_answer_of_keystone_is_no_verdict(fake: FakeKeystone, keystone: Keystone, status: int) -> None:
    token = fake.token("admin")
    await who(keystone, token)
    fake.world.seconds += 100
    fake.status = status
    with pytest.raises(AuthenticationUnavailable):
        await who(keystone, token)
    fake.status = None
    fake.world.seconds += DOWN_PAUSE_S
    await who(keystone, token)


async def test_wrong_credentials_of_its_own_are_no_verdict_on_a_callers(fake: FakeKeystone, keystone: Keystone) -> None:
    fake.password = "another"
    token = fake.token("admin")
    with pytest.raises(AuthenticationUnavailable):
        await who(keystone, token)
    fake.password = "secret"
    fake.world.seconds += DOWN_PAUSE_S
    await who(keystone, token)


async def test_a_keystone_that_hangs_is_waited_for_no_longer_than_said(fake: FakeKeystone) -> None:
    client = asking(fake, timeout_s=0.1)
    await who(client, fake.token("admin"))
    fake.delay_s = 30
    token = fake.token("admin")
    async with asyncio.timeout(5):
        refused = await asyncio.gather(*(who(client, token) for _ in range(50)), return_exceptions=True)
    assert {type(error) for error in refused} == {AuthenticationUnavailable}
    assert fake.asked["validate"] == 2
    await client.close()


async def test_tokens_themselves_are_not_kept(fake: FakeKeystone, keystone: Keystone) -> None:
    token = fake.token("admin")
    await who(keystone, token)
    assert token not in repr(vars(keystone))
    assert token.encode() not in repr(vars(keystone)).encode()


@pytest.mark.parametrize("suffix", ["", "/", "/v3", "/v3/"])
async def test_the_address_is_taken_with_and_without_version(fake: FakeKeystone, suffix: str) -> None:
    client = asking(fake, auth_url=fake.url + suffix, www_authenticate_uri="https://public")
    assert await who(client, fake.token("admin"))
    assert client.challenge == 'Keystone uri="https://public"'
    await client.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ENOUGH, "auth_url is needed, in the file of --config"),
        ({**ENOUGH, "auth_url": "keystone:5000"}, "auth_url"),
        ({"auth_url": "http://k", "username": "roost"}, "either username and password"),
        ({"auth_url": "http://k", "application_credential_id": "x"}, "either username and password"),
        (
            {
                **ENOUGH,
                "auth_url": "http://k",
                "application_credential_id": "x",
                "application_credential_secret": "y",
            },
            "either username and password",
        ),
        (
            {**ENOUGH, "auth_url": "https://k", "cafile": "/nosuch.pem"},
            r"\[keystone\] cafile /nosuch.pem: No such file",
        ),
        ({**ENOUGH, "auth_url": "https://k", "cafile": __file__}, "expected certificates in PEM"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        KeystoneSettings(**options).check()


def test_settings_that_can_work_are_not(tmp_path: Path) -> None:
    KeystoneSettings(auth_url="https://k:5000", cafile=Authority(tmp_path).cert, **ENOUGH).check()
    KeystoneSettings(
        auth_url="https://k/identity/v3", application_credential_id="x", application_credential_secret="y"
    ).check()


async def test_tokens_are_counted_by_what_was_known_of_them(fake: FakeKeystone, keystone: Keystone) -> None:
    def counted(result: str) -> float:
        return TOKENS.labels(result)._value.get()

    results = ("cached", "valid", "invalid", "unavailable")
    before = [counted(result) for result in results]
    token = fake.token("admin")
    for _ in range(3):
        await who(keystone, token)
    with pytest.raises(Unauthorized):
        await who(keystone, "nosuch")
    await fake.stop()
    with pytest.raises(AuthenticationUnavailable):
        await who(keystone, "another")
    assert [counted(result) - count for result, count in zip(results, before, strict=True)] == [2, 1, 1, 1]
    (entries,) = keystone.figures()
    assert {sample.labels["verdict"]: sample.value for sample in entries.samples} == {"valid": 1, "invalid": 1}


@pytest.mark.parametrize(
    ("options", "user_domain", "project_domain"),
    [
        ({}, {"name": "Default"}, {"name": "Default"}),
        ({"user_domain_name": "u", "project_domain_name": "p"}, {"name": "u"}, {"name": "p"}),
        ({"user_domain_id": "default", "user_domain_name": "u"}, {"id": "default"}, {"name": "Default"}),
        ({"project_domain_id": "5b5c"}, {"name": "Default"}, {"id": "5b5c"}),
    ],
)
@pytest.mark.parametrize("kind", [KeystoneSettings, PlacementClientSettings])
def test_a_domain_is_named_by_its_id_where_that_is_given(
    kind: type[KeystoneSettings] | type[PlacementClientSettings],
    options: dict[str, str],
    user_domain: dict[str, str],
    project_domain: dict[str, str],
) -> None:
    body = credentials_body(kind(username="roost", password="secret", **options))["auth"]
    assert body["identity"]["password"]["user"]["domain"] == user_domain
    assert body["scope"]["project"]["domain"] == project_domain
