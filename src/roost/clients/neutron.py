"""A Neutron over HTTP: its lists, read in pages of bounded size as a user who should see everything.

What a user may not see is left out of a list that is answered 200: objects of others, and members of objects.
Source: Networking API v2.0, GET /v2.0/networks, /segments, /subnets, /ports and /network-ip-availabilities, pagination
by marker, extension standard-attr-timestamp (`changed_since`).
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from roost.platform.auth import AuthenticationUnavailable
from roost.platform.catalog import EndpointMissing, find_endpoint
from roost.platform.http_sessions import HttpSession, Query, Reply, Unanswered
from roost.platform.keystone import Keystone, OwnToken
from roost.platform.retries import retried
from roost.platform.settings import NeutronSettings
from roost.platform.structs import copy_as
from roost.seams.neutron import (
    GET_SEGMENT,
    GET_SEGMENT_ID,
    NeutronNetwork,
    NeutronPartial,
    NeutronPort,
    NeutronSegment,
    NeutronSubnet,
    NeutronUnavailable,
    PortPage,
)

CONNECTIONS_MAX = 4
PAGES_MAX = 10_000
COUNTED_MAX = 40
"""Networks whose addresses are asked for at once: their ids are in the request's line."""
MARKER_LOST_MAX = 3
"""How often a list is begun anew because the page's last object was deleted before the next page was asked for."""

IDS_MAX = 40
"""Of one query: servers and proxies refuse lines above 8 KiB, and some above 4."""


class _Pool(Struct, frozen=True):
    start: str
    end: str


class _Subnet(Struct, frozen=True):
    id: str
    segment_id: str | UnsetType | None = UNSET
    gateway_ip: str | None = None
    enable_dhcp: bool = False
    allocation_pools: tuple[_Pool, ...] = ()
    network_id: str = ""
    name: str = ""
    cidr: str = ""
    service_types: tuple[str, ...] | None = ()


class _FixedIp(Struct, frozen=True):
    subnet_id: str
    ip_address: str


class _Port(Struct, frozen=True):
    id: str
    network_id: str = ""
    device_id: str | None = ""
    device_owner: str | None = ""
    project_id: str | None = ""
    fixed_ips: tuple[_FixedIp, ...] = ()
    updated_at: str | None = ""


class _SubnetCount(Struct, frozen=True):
    subnet_id: str
    used_ips: int
    ip_version: int = 4


class _NetworkCount(Struct, frozen=True):
    network_id: str
    subnet_ip_availability: tuple[_SubnetCount, ...] = ()


class _Counts(Struct, frozen=True):
    network_ip_availabilities: tuple[_NetworkCount, ...]


class _Link(Struct, frozen=True):
    rel: str = ""


Document = TypeVar("Document", NeutronNetwork, NeutronSegment, _Subnet, _Port)


class _MarkerLost(NeutronUnavailable):
    """The object after which the next page begins is gone."""


class HttpNeutron:
    """Implements roost.seams.neutron.NeutronClient for one Neutron, on a pool of connections opened by the first call.

    keystone: whose user asks, where the settings have no token; None for a Neutron that wants none. It is closed too.
    """

    def __init__(self, settings: NeutronSettings, keystone: Keystone | None) -> None:
        self._settings = settings
        self._keystone = None if settings.token else keystone
        self._url = _root(settings.url) if settings.url else ""
        self._session = HttpSession(
            timeout_s=settings.timeout_s,
            connections_max=CONNECTIONS_MAX,
            cafile=settings.cafile,
            insecure=settings.insecure,
            token=settings.token,
            make_token=None if self._keystone is None else self._make_token,
        )
        self._tells_changes = True
        self._token: OwnToken | None = None

    def who_asks(self) -> str:
        """See NeutronClient.who_asks."""
        if self._keystone is None:
            return "the token of [neutron]" if self._settings.token else "nobody, without a token"
        if self._token is None:
            return "the user of [keystone], which has no token yet"
        roles = ", ".join(self._token.roles) or "none"
        return f"the user {self._token.user} of [keystone], roles: {roles}"

    def forget_token(self) -> None:
        """See NeutronClient.forget_token."""
        self._session.token = ""

    async def list_networks(self) -> list[NeutronNetwork]:
        """See NeutronClient.list_networks."""
        return await self._list("networks", NeutronNetwork, ())

    async def list_segments(self) -> list[NeutronSegment]:
        """See NeutronClient.list_segments."""
        return await self._list("segments", NeutronSegment, ())

    async def list_subnets(self) -> list[NeutronSubnet]:
        """See NeutronClient.list_subnets."""
        documents = await self._list("subnets", _Subnet, (("ip_version", "4"),))
        if any(document.segment_id is UNSET for document in documents):
            hidden = f"Neutron at {self._url} does not say to {self.who_asks()} on which segments its subnets are"
            raise NeutronPartial(hidden, GET_SEGMENT, GET_SEGMENT_ID)
        return [
            copy_as(
                NeutronSubnet,
                document,
                segment_id=document.segment_id or "",
                pools=tuple((pool.start, pool.end) for pool in document.allocation_pools),
                service_types=document.service_types or (),
            )
            for document in documents
        ]

    async def count_addresses(self, network_ids: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """See NeutronClient.count_addresses. What an answer leaves out, as its pages are small, is asked for again."""
        counts: dict[str, Mapping[str, int]] = {}
        uncounted = sorted(set(network_ids))
        while uncounted:
            batch = uncounted[:COUNTED_MAX]
            answer = await self._count_networks(batch)
            counts |= answer
            uncounted = [network for network in uncounted if network not in (answer or batch)]
        return counts

    async def _count_networks(self, network_ids: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        name = "network-ip-availabilities"
        reply = await self._ask(name, [("network_id", network) for network in network_ids])
        if reply.status in (403, 404):  # by policy, or without the service plugin network_ip_availability
            return {}
        if reply.status != 200:
            raise self._unavailable(name, f"it answers {reply.status}")
        try:
            answer = reply.read(_Counts)
        except Unanswered as error:
            raise self._unavailable(name, f"its answer is none: {error}") from error
        return {
            network.network_id: {
                subnet.subnet_id: subnet.used_ips for subnet in network.subnet_ip_availability if subnet.ip_version == 4
            }
            for network in answer.network_ip_availabilities
            if network.network_id in network_ids
        }

    async def list_ports(
        self, *, changed_since: str = "", ids: Sequence[str] = (), device_id: str = ""
    ) -> PortPage | None:
        """See NeutronClient.list_ports. A Neutron that refuses the filter is not asked for changes again."""
        if changed_since and not self._tells_changes:
            return None
        query = []
        if device_id:
            query.append(("device_id", device_id))
        if changed_since:
            query.append(("changed_since", changed_since))
        try:
            documents = [
                document
                for some in _chunks(ids)
                for document in await self._list("ports", _Port, [*(("id", port_id) for port_id in some), *query])
            ]
        except _Refused as error:
            if not changed_since:
                raise self._unavailable("ports", str(error)) from error
            self._tells_changes = False
            return None
        ports = [
            copy_as(
                NeutronPort,
                document,
                device_id=document.device_id or "",
                device_owner=document.device_owner or "",
                project_id=document.project_id or "",
                addresses=tuple((fixed.subnet_id, fixed.ip_address) for fixed in document.fixed_ips),
            )
            for document in documents
        ]
        return PortPage(ports, max((document.updated_at or "" for document in documents), default=""))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.aclose()
        if self._keystone is not None:
            await self._keystone.close()

    @retried(_MarkerLost, most=MARKER_LOST_MAX)
    async def _list(self, name: str, kind: type[Document], query: Query) -> list[Document]:
        """Return all pages of a list. Raises NeutronUnavailable, and _Refused for changes that Neutron cannot tell."""
        fields: list[tuple[str, str]] = [("fields", member) for member in kind.__struct_fields__]
        page_query: list[tuple[str, str]] = [
            *query,
            *fields,
            ("sort_key", "id"),
            ("sort_dir", "asc"),
            ("limit", str(self._settings.page)),
        ]
        documents: dict[str, Document] = {}
        marker = ""
        for _ in range(PAGES_MAX):
            page, goes_on = await self._get(name, kind, [*page_query, ("marker", marker)] if marker else page_query)
            new = [document for document in page if document.id not in documents]
            documents |= {document.id: document for document in new}
            if not goes_on or not new:  # a Neutron without pagination gives all at once
                return list(documents.values())
            marker = page[-1].id
        raise self._unavailable(name, f"there are more than {PAGES_MAX} pages of them")

    async def _get(self, name: str, kind: type[Document], query: Query) -> tuple[list[Document], bool]:
        """Return a page, and whether there may be another: Neutron may have a smaller limit than ours."""
        reply = await self._ask(name, query)
        status = reply.status
        has_marker = any(key == "marker" for key, _ in query)
        if status in (400, 404) and has_marker:
            raise _MarkerLost(*self._unavailable(name, "they are deleted faster than they can be listed").args)
        if status == 400 and any(key == "changed_since" for key, _ in query):
            raise _Refused(f"it answers {status}")
        if status != 200:
            hint = {401: f" to {self.who_asks()}", 403: f": {self.who_asks()} needs the right get_{name[:-1]}"}
            raise self._unavailable(name, f"it answers {status}{hint.get(status, '')}")
        try:
            members = reply.read(dict[str, msgspec.Raw])
            page = msgspec.json.decode(members[name], type=list[kind])  # type: ignore[valid-type]
            links = msgspec.json.decode(members.get(f"{name}_links", b"[]"), type=list[_Link])
            return page, len(page) >= self._settings.page or any(link.rel == "next" for link in links)
        except (Unanswered, msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
            raise self._unavailable(name, f"its answer is none: {error}") from error

    async def _ask(self, name: str, query: Query) -> Reply:
        """Return an answer to who has a token, if there is one to have. Raises NeutronUnavailable."""
        try:
            return await self._session.ask("GET", f"{await self._address(name)}/{name}", query=query)
        except AuthenticationUnavailable as error:
            raise self._unavailable(name, "Keystone gives Roost no token; the log has the reason") from error
        except Unanswered as error:
            raise self._unavailable(name, str(error)) from error

    async def _make_token(self, _session: HttpSession) -> str:
        """Return a token of Keystone's, another than the last one: that was refused, or saw too little."""
        assert self._keystone is not None
        self._token = await self._keystone.own_token(refused="" if self._token is None else self._token.text)
        return self._token.text

    async def _address(self, name: str) -> str:
        """Return where Neutron is: as the settings say, else as the catalogue of the latest token does.

        Raises NeutronUnavailable, AuthenticationUnavailable.
        """
        if self._keystone is not None and not self._settings.url:
            catalog = (await self._keystone.own_token()).catalog
            try:
                url = find_endpoint(
                    catalog, "network", interface=self._settings.interface, region=self._settings.region
                )
            except EndpointMissing as error:
                raise self._unavailable(name, str(error)) from error
            self._url = _root(url)
        return self._url

    def _unavailable(self, name: str, cause: str) -> NeutronUnavailable:
        where = f" at {self._url}" if self._url else ""
        return NeutronUnavailable(f"Neutron{where} cannot be asked for {name}: {cause}.")


class _Refused(Exception):
    """Neutron does not know a filter."""


def _root(url: str) -> str:
    """Return where the lists are. url: of a service, with or without /v2.0."""
    return f"{url.rstrip('/').removesuffix('/v2.0')}/v2.0"


def _chunks(ids: Sequence[str]) -> list[Sequence[str]]:
    """Return the ids as queries name them, at most IDS_MAX in each; one query that names none where there are none."""
    return [ids[start : start + IDS_MAX] for start in range(0, len(ids), IDS_MAX)] or [()]
