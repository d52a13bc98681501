"""SQL of lists as clients ask for them: filters, order and pages.

A list's statement is composed of the expressions below, one for each attribute by the name that clients use. Clients'
values are arguments, never parts of the statement. A page begins after the position of its marker (keyset paging). So
it costs as much at the end of a list as at its beginning. NULL comes before everything else, and texts are in the order
of their code points.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.network.model.networks import AGENT_BINARY, AGENT_TYPE, ListKind, ListQuery, ListRow
from roost.platform.database import Connection

_SHOWN_TIME = """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


class Filter(NamedTuple):
    """A condition on rows, with $values where the values go. values: what they are, which says how they are read."""

    condition: str
    values: str = "text"


class Column(NamedTuple):
    """An attribute as an expression over the row `o`.

    type: PostgreSQL's; of an array, filters match any value. order: the expression by which rows are ordered, if it is
    another; an array without one orders nothing. sparse: its index has no empty texts.
    """

    expression: str
    type: str = "text"
    nullable: bool = False
    order: str = ""
    sparse: bool = False

    @property
    def filter(self) -> Filter:
        """Return the condition that the attribute, as it is shown, is one of the values."""
        match self.type:
            case "text[]" | "uuid[]":
                return Filter(f"{self.expression} && $values::{self.type}", self.type.removesuffix("[]"))
            case "integer":
                return Filter(f"({self.expression})::text = ANY($values::text[])")
            case "timestamptz":
                return Filter(f"{_SHOWN_TIME.format(self.expression)} = ANY($values::text[])")
            case _:
                return Filter(f"({self.expression}) = ANY($values::{self.type}[])", self.type)

    @property
    def filter_null(self) -> str:
        """Return the condition that the attribute, or one of its values, is null; empty where none is."""
        if not self.nullable:
            return ""
        return f"array_position({self.expression}, NULL) IS NOT NULL" if self.order else f"{self.expression} IS NULL"

    @property
    def sort_keys(self) -> list[str]:
        """Return the expressions that order rows by the attribute. A nullable one has two: nulls come first."""
        key = self.order or f"({self.expression})"
        if self.type == "text":
            key += ' COLLATE "C"'
        elif self.type == "timestamptz":
            key = f"date_trunc('second', {key})"
        return [f"({key} IS NOT NULL)", key] if self.nullable else [key]


def _own(type_name: str, *names: str, nullable: bool = False) -> dict[str, Column]:
    """Return attributes that are columns of their own name."""
    return {name: Column(f"o.{name}", type_name, nullable) for name in names}


_NOTHING = Column("NULL::text", nullable=True)
_NO_LIST = Column("'{}'::text[]", "text[]")

_COMMON = {
    **_own("uuid", "id"),
    **_own("text", "name", "description"),
    **_own("timestamptz", "created_at", "updated_at"),
    "revision_number": Column("o.revision", "integer"),
}
_OWNED = {**_COMMON, "project_id": Column("o.project_id"), "tenant_id": Column("o.project_id")}


def _carrier(field: str, collation: str = "") -> Column:
    """Return the column of a link's field: of the network's segments, or its own. Several segments order nothing."""
    links = f"SELECT g.{field} FROM network.segment g WHERE g.network_id = o.id"  # noqa: S608 - names of columns
    return Column(
        f"coalesce(nullif(ARRAY({links}), '{{}}'), ARRAY[o.{field}])::text[]",
        "text[]",
        nullable=True,
        order=f"(CASE cardinality(ARRAY({links})) WHEN 0 THEN o.{field} WHEN 1 THEN ({links}) END{collation})",
    )


TABLES: Mapping[ListKind, str] = {"agent": "host", "network_ip_availability": "network"}
"""Kind -> its table, where that has another name."""

KEYS: Mapping[ListKind, str] = {"network_ip_availability": "network_id"}
"""Kind -> the attribute that identifies a row, where that is not `id`."""

COLUMNS: Mapping[ListKind, Mapping[str, Column]] = {
    "network": {
        **_OWNED,
        **_own("boolean", "admin_state_up", "shared", "port_security_enabled"),
        **_own("integer", "mtu"),
        "status": Column("CASE WHEN o.admin_state_up THEN 'ACTIVE' ELSE 'DOWN' END"),
        "router:external": Column("o.external", "boolean"),
        "subnets": Column("ARRAY(SELECT s.id FROM network.subnet s WHERE s.network_id = o.id)", "uuid[]"),
        "availability_zone_hints": _NO_LIST,
        "availability_zones": _NO_LIST,
        "ipv4_address_scope": _NOTHING,
        "ipv6_address_scope": _NOTHING,
        "l2_adjacency": Column(
            "NOT EXISTS (SELECT FROM network.subnet s WHERE s.network_id = o.id AND s.segment_id IS NOT NULL)",
            "boolean",
        ),
        "provider:network_type": _carrier("network_type", ' COLLATE "C"'),
        "provider:physical_network": _carrier("physical_network", ' COLLATE "C"'),
        "provider:segmentation_id": _carrier("segmentation_id"),
        "roost:kind": Column("CASE WHEN o.flat THEN 'flat' END", nullable=True),
    },
    "segment": {
        **_COMMON,
        **_own("uuid", "network_id"),
        **_own("text", "network_type"),
        **_own("text", "name", "physical_network", nullable=True),
        **_own("integer", "segmentation_id", nullable=True),
    },
    "subnet": {
        **_OWNED,
        **_own("uuid", "network_id"),
        **_own("uuid", "segment_id", nullable=True),
        **_own("integer", "ip_version"),
        **_own("boolean", "enable_dhcp"),
        **_own("text[]", "dns_nameservers", "service_types"),
        **_own("text", "ipv6_ra_mode", "ipv6_address_mode", nullable=True),
        "cidr": Column("o.cidr::text"),
        "gateway_ip": Column("host(o.gateway_ip)", nullable=True),
        "subnetpool_id": _NOTHING,
        "roost:cell": Column("o.cell", nullable=True),
    },
    "port": {
        **_OWNED,
        **_own("uuid", "network_id"),
        **_own("boolean", "admin_state_up", "port_security_enabled"),
        **_own("text", "mac_address", "device_owner", "ip_allocation"),
        "status": Column("CASE WHEN o.host IS NULL THEN 'DOWN' ELSE 'ACTIVE' END"),
        "device_id": Column("o.device_id", sparse=True),
        "extra_dhcp_opts": _NO_LIST,
        "security_groups": _NO_LIST,
        "binding:host_id": Column("coalesce(o.host, '')"),
        "binding:vnic_type": Column("o.vnic_type"),
        "binding:vif_type": Column("o.vif_type"),
    },
    "agent": {
        "id": Column("o.agent_id", "uuid"),
        "host": Column("o.name"),
        "agent_type": Column(f"'{AGENT_TYPE}'::text"),
        "binary": Column(f"'{AGENT_BINARY}'::text"),
        "topic": Column(f"'{AGENT_BINARY}'::text"),
    },
    "network_ip_availability": {
        "network_id": Column("o.id", "uuid"),
        "network_name": Column("o.name"),
        "project_id": Column("o.project_id"),
        "tenant_id": Column("o.project_id"),
    },
}
"""Attributes by the names that clients use. Objects and lists of objects are left out."""

SORTED: Mapping[ListKind, frozenset[str]] = {
    kind: frozenset(name for name, column in columns.items() if not column.type.endswith("[]") or column.order)
    for kind, columns in COLUMNS.items()
}
"""The attributes by which the database orders."""

_TAGS = {
    "tags": Filter("o.tags @> $values::text[]", "tags"),
    "tags-any": Filter("o.tags && $values::text[]", "tags"),
    "not-tags": Filter("NOT o.tags @> $values::text[]", "tags"),
    "not-tags-any": Filter("NOT o.tags && $values::text[]", "tags"),
    "changed_since": Filter("o.updated_at >= ANY($values::timestamptz[])", "since"),
}
_PORTS_OF = "o.id = ANY(ARRAY(SELECT a.port_id FROM network.address a WHERE {}))"

_SHARED = "EXISTS (SELECT FROM network.network n WHERE n.id = o.network_id AND n.shared = ANY($values::boolean[]))"
_WITH_SUBNET = """EXISTS (SELECT FROM network.subnet s
    WHERE s.network_id = o.id AND s.ip_version = ANY($values::integer[]))"""
_WITH_PART = """EXISTS (SELECT FROM network.address a, unnest($values::text[]) AS part
    WHERE a.port_id = o.id AND strpos(host(a.address), part) > 0)"""

_MORE_FILTERS: Mapping[ListKind, Mapping[str, Filter]] = {
    "network": _TAGS,
    "segment": _TAGS,
    # `shared` is the network's: subnets do not show it. Source: neutron-lib, definitions/subnet.py.
    "subnet": {**_TAGS, "shared": Filter(_SHARED, "boolean")},
    "port": {
        **_TAGS,
        "mac_address": Filter("o.mac_address = ANY($values::text[])", "mac"),
        "fixed_ips": Filter("", "fixed_ips"),  # see FIXED_IPS
    },
    "network_ip_availability": {
        "ip_version": Filter(_WITH_SUBNET, "ip_version"),
        "id": Filter("$values::text[] IS NOT NULL"),  # as upstream: every network passes
    },
}

FILTERS: Mapping[ListKind, Mapping[str, Filter]] = {
    kind: {**{name: column.filter for name, column in columns.items()}, **_MORE_FILTERS.get(kind, {})}
    for kind, columns in COLUMNS.items()
}
"""The filters by the names that clients use."""

FIXED_IPS: Mapping[str, Filter] = {
    "ip_address": Filter(_PORTS_OF.format("a.address = ANY($values::inet[])"), "address"),
    "ip_address_substr": Filter(_WITH_PART),
    "subnet_id": Filter(_PORTS_OF.format("a.subnet_id = ANY($values::uuid[])"), "uuid"),
}
"""The parts of the filter `fixed_ips` of ports, each a filter by itself."""

_NETWORKS_OF = "SELECT n.id FROM network.network n WHERE n.project_id = $project"
SHOWN: Mapping[ListKind, str] = {"port": "o.nic_tag IS NULL"}
"""Kind -> the condition on rows that clients may see, where not all are."""

VISIBLE: Mapping[ListKind, str] = {
    "network": "(o.project_id = $project OR o.shared OR o.external)",
    "subnet": f"(o.project_id = $project OR o.network_id = ANY(ARRAY({_NETWORKS_OF} OR n.shared OR n.external)))",
    "port": f"(o.project_id = $project OR o.network_id = ANY(ARRAY({_NETWORKS_OF})))",
}
"""Kind -> the condition on rows that a project sees, unless a policy file shows it all. Other kinds have none."""


async def list_rows(tx: Connection, kind: ListKind, query: ListQuery, columns: Sequence[str] = ()) -> list[ListRow]:
    """Return a page in the order in which it is shown. columns: of `o`; they become each row's `values`."""
    statement, arguments = compose(kind, query, columns)
    count = len(columns)
    rows = [ListRow(row[count], row[count + 1 :], row[:count]) for row in await tx.fetch(statement, *arguments)]
    return rows[::-1] if query.reverse else rows


def compose(kind: ListKind, query: ListQuery, columns: Sequence[str] = ()) -> tuple[str, list[Any]]:
    """Return the statement of a page, and its arguments. A query in reverse reads the page from its end.

    columns: further columns of the row `o`.
    """
    arguments: list[Any] = []

    def place(value: Any) -> str:
        arguments.append(value)
        return f"${len(arguments)}"

    conditions = [SHOWN.get(kind, "true")]
    if query.seen_by is not None:
        conditions.append(VISIBLE.get(kind, "true").replace("$project", f"{place(query.seen_by)}::text"))
    for item in query.filters:
        chosen = FILTERS[kind].get(item.name) or FIXED_IPS[item.name]
        condition = chosen.condition.replace("$values", place(item.values))
        column = COLUMNS[kind].get(item.name)
        if column is not None and column.sparse and "" not in item.values:
            condition += f" AND {column.expression} <> ''"  # said, so that PostgreSQL may use the index
        null = column.filter_null if column is not None and item.null else ""
        conditions.append(f"({condition} OR {null})" if null else condition)
    keys = [
        (key, descending != query.reverse) for name, descending in query.order for key in COLUMNS[kind][name].sort_keys
    ]
    if query.after is not None:
        conditions.append(_after(keys, [place(value) for value in query.after]))
    order = ", ".join(f"{key} DESC" if descending else key for key, descending in keys)
    identity = COLUMNS[kind][KEYS.get(kind, "id")].expression
    limit = "" if query.limit is None else f"LIMIT {place(query.limit)}"
    statement = f"""-- network.list_{kind}_rows
SELECT {", ".join([*columns, identity, *(key for key, _ in keys)])} FROM network.{TABLES.get(kind, kind)} o
WHERE {" AND ".join(conditions)}
ORDER BY {order} {limit}"""  # noqa: S608 - names of columns and places of arguments
    return statement, arguments


def _after(keys: Sequence[tuple[str, bool]], values: Sequence[str]) -> str:
    """Return the condition that a row comes after these values of its keys, some of which descend."""
    ways: list[str] = []
    equal: list[str] = []
    for (key, descending), value in zip(keys, values, strict=True):
        ways.append(" AND ".join([*equal, f"{key} {'<' if descending else '>'} {value}"]))
        equal.append(f"{key} IS NOT DISTINCT FROM {value}")
    return f"({' OR '.join(ways)})"
