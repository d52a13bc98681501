"""The Placement API on a small ledger that has one of everything, asked in this process with any bytes whatever."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tests.platform.asgi import Answer, send_raw

from roost.placement.api import routes
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.auth import Policy, Unrestricted
from roost.platform.authentication import Authentication, noauth2
from roost.platform.database import Database
from roost.platform.mounts import mount

AGGREGATE, HOST, NUMA, SEGMENT, OTHER_HOST, SERVER, MIGRATION, NOTHING = (
    f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 9)
)
CLASS, UNUSED_CLASS, TRAIT, UNUSED_TRAIT = "CUSTOM_FPGA", "CUSTOM_UNUSED", "CUSTOM_FAST", "CUSTOM_IDLE"
PROJECT, USER = "p1", "u1"
OPEN = frozenset({"/placement/", "/placement/openapi.json"})


@dataclass(frozen=True)
class Api:
    """The Placement API below /placement."""

    app: ASGIApp

    @classmethod
    def on(cls, ledger: Ledger, policy: Policy | None = None) -> "Api":
        """The API on a ledger, where everybody may do everything, or callers say who they are and policy is asked."""
        app = Starlette(routes=[mount("/placement", routes(ledger, policy or Unrestricted()))])
        return cls(app) if policy is None else cls(Authentication(app, noauth2, open_paths=OPEN))

    async def send(
        self,
        method: str,
        target: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: Sequence[bytes] = (b"",),
    ) -> Answer:
        """Ask for a target (a percent-encoded path, perhaps with a query) with the chunks of a body."""
        return await send_raw(self.app, method, b"/placement" + target, headers, body)

    async def call(self, method: str, target: str, body: Any = None, *, version: str = "1.39") -> Answer:
        """The same with a body in JSON, at a microversion."""
        headers = [(b"host", b"roost.test"), (b"openstack-api-version", f"placement {version}".encode())]
        if body is None:
            return await self.send(method, target.encode(), headers)
        headers.append((b"content-type", b"application/json"))
        return await self.send(method, target.encode(), headers, [msgspec.json.encode(body)])


async def populate(database: Database, policy: Policy | None = None) -> Api:
    """An API on an empty database, in which there is one of everything then. policy: whether callers are asked."""
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    api = Api.on(ledger)
    for method, target, body in _requests():
        answer = await api.call(method, target, body)
        assert answer.status < 300, (method, target, answer)
    return Api.on(ledger, policy)


def _requests() -> list[tuple[str, str, Any]]:
    provider = "/resource_providers/{}".format
    owner = {"project_id": PROJECT, "user_id": USER, "consumer_generation": None}
    wants = {HOST: {"resources": {"VCPU": 2}}, SEGMENT: {"resources": {"IPV4_ADDRESS": 1}}}
    return [
        ("PUT", f"/resource_classes/{CLASS}", None),
        ("PUT", f"/resource_classes/{UNUSED_CLASS}", None),
        ("PUT", f"/traits/{TRAIT}", None),
        ("PUT", f"/traits/{UNUSED_TRAIT}", None),
        ("POST", "/resource_providers", {"uuid": HOST, "name": "host1"}),
        ("POST", "/resource_providers", {"uuid": NUMA, "name": "numa0", "parent_provider_uuid": HOST}),
        ("POST", "/resource_providers", {"uuid": SEGMENT, "name": "rack1"}),
        ("POST", "/resource_providers", {"uuid": OTHER_HOST, "name": "host2"}),
        ("PUT", f"{provider(HOST)}/inventories", _inventories(VCPU=8, MEMORY_MB=4096)),
        ("PUT", f"{provider(NUMA)}/inventories", _inventories(**{CLASS: 4})),
        ("PUT", f"{provider(SEGMENT)}/inventories", _inventories(IPV4_ADDRESS=5)),
        ("PUT", f"{provider(OTHER_HOST)}/inventories", _inventories(VCPU=4)),
        ("PUT", f"{provider(SEGMENT)}/traits", _at_generation(1, traits=["MISC_SHARES_VIA_AGGREGATE"])),
        ("PUT", f"{provider(HOST)}/traits", _at_generation(1, traits=[TRAIT, "HW_CPU_X86_AVX2"])),
        ("PUT", f"{provider(SEGMENT)}/aggregates", _at_generation(2, aggregates=[AGGREGATE])),
        ("PUT", f"{provider(HOST)}/aggregates", _at_generation(2, aggregates=[AGGREGATE])),
        ("PUT", f"/allocations/{SERVER}", {"allocations": wants, "consumer_type": "INSTANCE", **owner}),
        (
            "PUT",
            f"/allocations/{MIGRATION}",
            {"allocations": {NUMA: {"resources": {CLASS: 1}}}, "consumer_type": "MIGRATION", **owner},
        ),
    ]


def _inventories(**totals: int) -> dict[str, Any]:
    return _at_generation(0, inventories={name: {"total": total} for name, total in totals.items()})


def _at_generation(generation: int, **body: Any) -> dict[str, Any]:
    return {"resource_provider_generation": generation, **body}
