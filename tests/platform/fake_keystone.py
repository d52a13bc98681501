"""A Keystone over real HTTP: tokens that expire and are revoked, credentials that are right or wrong, outages.

Source: Identity API v3, /v3/auth/tokens. Keystone is not Roost's, so a stand-in of it is allowed; what it answers was
compared with Keystone 30.
"""

import asyncio
import ssl
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

DOMAIN = {"id": "default", "name": "Default"}
DAY = timedelta(days=1)


class World:
    """The time that Keystone and Roost share; tests move it."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._started = datetime(2026, 3, 1, tzinfo=UTC)

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return self._started + timedelta(seconds=self.seconds)


class Today(World):
    """The time that other processes go by."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class FakeKeystone:
    """Serves on a port of its own from `start` to `stop`; `asked` counts requests by kind."""

    world: World = field(default_factory=World)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    password: str = "secret"
    own_life_s: float = 3600
    own_roles: tuple[str, ...] = ("service",)
    delay_s: float = 0
    status: int | None = None
    status_by_token: dict[str, int] = field(default_factory=dict)
    catalog: list[dict[str, Any]] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    port: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_post("/v3/auth/tokens", self._issue)
        app.router.add_get("/v3/auth/tokens", self._validate)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self.tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Nobody listens any more."""
        if self._runner:
            await self._runner.cleanup()

    def token(self, *roles: str, life: timedelta = DAY, user: str = "u1", **scope: Any) -> str:
        """A new token; without `project`, `domain` or `system` it is scoped to the project p1."""
        text = f"gAAAA{uuid.uuid4().hex}"
        document = {
            "user": {"id": user, "name": f"name of {user}", "domain": DOMAIN},
            "methods": ["password"],
            "audit_ids": ["x"],
            "issued_at": _written(self.world.now()),
            "expires_at": _written(self.world.now() + life),
            "roles": [{"id": f"id of {role}", "name": role} for role in roles],
        }
        document |= scope or {"project": {"id": "p1", "name": "one", "domain": DOMAIN}}
        self.tokens[text] = document
        return text

    async def _issue(self, request: web.Request) -> web.Response:
        self.asked["issue"] += 1
        if self.status:
            return web.Response(status=self.status)
        identity = (await request.json())["auth"]["identity"]
        password = identity.get("password", {}).get("user", {})
        credential = identity.get("application_credential", {})
        right = (password.get("name"), password.get("domain"), password.get("password")) == (
            "roost",
            {"name": "Default"},
            self.password,
        ) or (credential == {"id": "cred", "secret": self.password})
        if not right:
            return web.json_response({"error": {"code": 401, "title": "Unauthorized"}}, status=401)
        text = self.token(*self.own_roles, life=timedelta(seconds=self.own_life_s), user="roost")
        document = {"token": {**self.tokens[text], "catalog": self.catalog}}
        return web.json_response(document, status=201, headers={"X-Subject-Token": text})

    async def _validate(self, request: web.Request) -> web.Response:
        self.asked["validate"] += 1
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if status := self.status_by_token.get(request.headers["X-Subject-Token"], self.status):
            return web.Response(status=status, text="<html>trouble</html>", headers={"Location": "/elsewhere"})
        own = self.tokens.get(request.headers["X-Auth-Token"])
        if own is None or self._expired(own):
            return web.json_response({"error": {"code": 401, "title": "Unauthorized"}}, status=401)
        if not {"service", "admin"} & {role["name"] for role in own["roles"]}:
            return web.json_response({"error": {"code": 403, "title": "Forbidden"}}, status=403)
        found = self.tokens.get(request.headers["X-Subject-Token"])
        if found is None or (self._expired(found) and "allow_expired" not in request.query):
            return web.json_response({"error": {"code": 404, "title": "Not Found"}}, status=404)
        return web.json_response({"token": found})

    def _expired(self, document: dict[str, Any]) -> bool:
        return datetime.fromisoformat(document["expires_at"]) <= self.world.now()


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
