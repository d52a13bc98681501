"""Decides what a caller may see and set, by policy, of the networks, subnets and ports of a request.

guard.py asks before an operation begins. Lists and answers leave out what the caller may not see.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from starlette.requests import Request

from roost.network.api.policies import ATTRIBUTES, PRIVILEGED
from roost.network.model.networks import NetworkOwner
from roost.network.rules.documents import NetworkDocument, PortDocument, SubnetDocument
from roost.network.service import Networks
from roost.network.service import networks as service
from roost.platform.auth import ANONYMOUS, UNRESTRICTED, Caller, Policy, allows

ACCESS_KEY = "roost.network.access"
"""The key of a request's Access in its scope; absent where nobody is asked."""

KINDS: Mapping[type[Struct], str] = {NetworkDocument: "network", SubnetDocument: "subnet", PortDocument: "port"}
"""The documents that have an owner, by the names of their rules."""

HIDEABLE: Mapping[str, tuple[str, ...]] = {
    kind: tuple(name.partition(":")[2] for name in ATTRIBUTES if name.startswith(f"get_{kind}:"))
    for kind in KINDS.values()
}

Target = dict[str, str]
D = TypeVar("D", bound=Struct)


class Verdict(Struct, frozen=True):
    """Whether a caller sees a document, and which of its attributes are hidden."""

    visible: bool
    hidden: frozenset[str] = frozenset()


class Access:
    """What a caller may do, with answers remembered during the request.

    reachable: the caller's own, shared and external networks; None for a caller who sees all.
    """

    def __init__(self, policy: Policy, caller: Caller, reachable: Mapping[str, NetworkOwner] | None) -> None:
        self.caller = caller
        self.reachable = reachable
        self._policy = policy
        self._verdicts: dict[tuple[str, ...], Verdict] = {}

    @classmethod
    async def of(cls, networks: Networks, policy: Policy, caller: Caller, *, owned: bool) -> "Access":
        """Return the access of a caller. owned: the documents of the request have owners."""
        blind = cls(policy, caller, None)
        if not owned or any(blind.allows(rule, {}) for rule in PRIVILEGED):
            return blind
        return cls(policy, caller, await service.list_reachable(networks, caller.project_id or ""))

    @property
    def privileged(self) -> bool:
        """Return whether the caller sees other projects."""
        return self.reachable is None

    def enforce(self, rule: str, target: Mapping[str, str]) -> None:
        """Raise Forbidden unless the rule lets the caller do this to the target."""
        self._policy.enforce(self.caller, rule, target)

    def allows(self, rule: str, target: Mapping[str, str]) -> bool:
        """Return whether the rule lets the caller do this to the target."""
        return allows(self._policy, self.caller, rule, target)

    def target(self, document: Struct) -> Target:
        """Return the target that rules ask about, of a network, subnet or port."""
        assert isinstance(document, NetworkDocument | SubnetDocument | PortDocument)
        if isinstance(document, NetworkDocument):
            network: NetworkOwner | None = NetworkOwner(document.project_id, document.shared, document.external)
        else:
            network = (self.reachable or {}).get(document.network_id)
        return target_of(document.project_id, network, getattr(document, "device_owner", None))

    def verdict(self, document: Struct) -> Verdict:
        """Return what the caller sees of the document; everything of one without an owner."""
        kind = KINDS.get(type(document))
        if kind is None:
            return Verdict(True)
        if self.privileged:
            anything = self._remembered(kind, {})
            if anything.visible:
                return anything
        return self._remembered(kind, self.target(document))

    def _remembered(self, kind: str, target: Target) -> Verdict:
        key = (kind, *target.values())
        verdict = self._verdicts.get(key)
        if verdict is None:
            visible = self.allows(f"get_{kind}", target)
            hidden = (name for name in HIDEABLE[kind] if not self.allows(f"get_{kind}:{name}", target))
            verdict = self._verdicts[key] = Verdict(visible, frozenset(hidden))
        return verdict

    def enforce_attributes(self, rule: str, item: Struct, target: Mapping[str, str]) -> None:
        """Raise Forbidden unless the caller may set each attribute that the body sets to other than its default."""
        for name in _said(rule, item):
            self.enforce(name, target)


EVERYTHING = Access(UNRESTRICTED, ANONYMOUS, None)
"""What everybody may do without authentication."""


def access_of(request: Request) -> Access:
    """Return the access of the request's caller."""
    access: Access = request.scope.get(ACCESS_KEY, EVERYTHING)
    return access


def target_of(project_id: str | None, network: NetworkOwner | None = None, device_owner: str | None = None) -> Target:
    """Return the target that rules ask about. project_id: None for what nobody owns.

    network: the network that is asked about, or that the subnet or port is on.
    """
    target = {} if project_id is None else {"project_id": project_id, "tenant_id": project_id}
    if network is not None:
        target |= {
            "network:project_id": network.project_id,
            "network:tenant_id": network.project_id,
            "shared": str(network.shared),
            "router:external": str(network.external),
        }
    return target if device_owner is None else target | {"device_owner": device_owner}


STRANGER = target_of("-", NetworkOwner("-", shared=False, external=False), "")
"""The target of a document of a project that does not exist, on a network of that project."""


def seen(documents: Sequence[D], request: Request, used: frozenset[str]) -> Sequence[D]:
    """Return the documents that the caller sees, with every attribute by which the list is filtered or ordered.

    used: these attributes.
    """
    access = access_of(request)
    verdicts = [(item, access.verdict(item)) for item in documents]
    return [item for item, verdict in verdicts if verdict.visible and not verdict.hidden & used]


def seen_by(request: Request, kind: str) -> str | None:
    """Return the project to which the database narrows a list; None if the caller may see other projects'."""
    access = access_of(request)
    if access.privileged or access.allows(f"get_{kind}", STRANGER):
        return None
    return access.caller.project_id or ""


@cache
def _defaults(kind: type[Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return (name, name in the API, default) of every field of a struct. Cached: a body may have many structs."""
    return tuple(
        (item.name, item.encode_name, item.default if item.default_factory is NODEFAULT else item.default_factory())
        for item in msgspec.structs.fields(kind)
    )


def _said(rule: str, item: Struct) -> Iterator[str]:
    """Yield the rules of the attributes that a body sets, and of those in its lists."""
    for attribute, shown, default in _defaults(type(item)):
        value: Any = getattr(item, attribute)
        if value is UNSET or value == default:
            continue
        name = f"{rule}:{shown}"
        if name in ATTRIBUTES:
            yield name
        for part in value if isinstance(value, list) else ():
            if isinstance(part, Struct):
                yield from _said(name, part)
