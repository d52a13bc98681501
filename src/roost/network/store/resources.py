"""SQL that is the same for networks, segments, subnets and ports: rows written, changed and deleted, and their tags.

A row has the fields of its struct as columns. It goes in as JSON, which PostgreSQL reads by the table's types.
"""
# ruff: noqa: S608 - what is put into a statement are names of tables and columns.

from collections.abc import Mapping, Sequence

from roost.network.model.networks import Kind, Network, Segment, Subnet
from roost.network.model.ports import Port
from roost.platform.database import Connection
from roost.platform.rows import encode

_STRUCTS: Mapping[Kind, type[Network | Segment | Subnet | Port]] = {
    "network": Network,
    "segment": Segment,
    "subnet": Subnet,
    "port": Port,
}
_OF_OTHER_TABLES = ("links", "subnet_ids", "segment_ids", "segmented", "pools", "addresses")
COLUMNS = {
    kind: [name for name in struct.__struct_fields__ if name not in _OF_OTHER_TABLES]
    for kind, struct in _STRUCTS.items()
}
_CHANGEABLE: Mapping[Kind, str] = {
    "network": "name description admin_state_up shared external mtu port_security_enabled",
    "segment": "name description",
    "subnet": "name description gateway_ip enable_dhcp dns_nameservers host_routes service_types segment_id",
    "port": """name description admin_state_up device_id device_owner host vnic_type binding_profile vif_type
        mac_address made_for reserved_from port_security_enabled allowed_address_pairs""",
}
"""The columns that `update` writes: what a client, or a server's build, may change. Others stay as they are."""


def _read(name: str) -> str:
    """Return the expression of a column in JSON that is read as a row `given`; a profile is JSON in a text there."""
    return "(given.binding_profile #>> '{}')::jsonb" if name == "binding_profile" else f"given.{name}"


INSERT = {
    kind: f"""
-- network.insert_{kind}s
INSERT INTO network.{kind} ({", ".join(names)})
SELECT {", ".join(map(_read, names))} FROM json_populate_recordset(NULL::network.{kind}, $1) AS given
ON CONFLICT DO NOTHING RETURNING id
"""
    for kind, names in COLUMNS.items()
}


async def insert(tx: Connection, kind: Kind, new: Sequence[Network | Segment | Subnet | Port]) -> set[str]:
    """Insert new rows, of subnets without pools; return the ids inserted.

    A port whose MAC address its network has already is left out.
    """
    return {row["id"] for row in await tx.fetch(INSERT[kind], encode(new))} if new else set()


UPDATE = {
    kind: f"""
-- network.update_{kind}s
UPDATE network.{kind} o
SET {", ".join(f"{name} = {_read(name)}" for name in names.split())}, revision = o.revision + 1, updated_at = now()
FROM json_populate_recordset(NULL::network.{kind}, $1) AS given WHERE o.id = given.id
"""
    for kind, names in _CHANGEABLE.items()
}


async def update(tx: Connection, kind: Kind, changed: Sequence[Network | Segment | Subnet | Port]) -> None:
    """Write what may be changed of rows, and raise their revisions. They are locked, or their networks are."""
    await tx.execute(UPDATE[kind], encode(changed))


TOUCH = """
-- network.touch_{kind}s
UPDATE network.{kind} SET revision = revision + 1, updated_at = now() WHERE id = ANY($1::uuid[])
"""


async def touch(tx: Connection, kind: Kind, ids: Sequence[str]) -> None:
    """Raise the revisions of locked rows, which refuses whoever read an earlier one.

    Source of the networks' after a change of a subnet: Neutron, db/models_v2.py, Subnet.revises_on_change.
    """
    if ids:
        await tx.execute(TOUCH.format(kind=kind), ids)


DELETE = """
-- network.delete_{kind}s
DELETE FROM network.{kind} WHERE id = ANY($1::uuid[])
"""


async def delete(tx: Connection, kind: Kind, ids: Sequence[str]) -> None:
    """Delete rows; a subnet's pools and free ranges, and a port's inactive bindings, go with them.

    Callers delete the addresses.
    """
    await tx.execute(DELETE.format(kind=kind), ids)


LOCK_TAGS = {
    kind: f"""
-- network.lock_{kind}_tags
SELECT tags FROM network.{kind} WHERE id = $1 {"AND nic_tag IS NULL" if kind == "port" else ""} FOR NO KEY UPDATE
"""
    for kind in COLUMNS
}

# A build compares the revision of the port that it holds: a tag must not end it.
UPDATE_TAGS = {
    kind: f"""
-- network.update_{kind}_tags
UPDATE network.{kind} SET tags = $2, updated_at = now(),
    revision = revision + {"(reserved_from IS NULL)::integer" if kind == "port" else 1}
WHERE id = $1
"""
    for kind in COLUMNS
}


async def lock_tags(tx: Connection, kind: Kind, resource_id: str) -> tuple[str, ...] | None:
    """Lock and return the tags of a resource; None when it does not exist."""
    tags = await tx.fetchval(LOCK_TAGS[kind], resource_id)
    return None if tags is None else tuple(tags)


async def update_tags(tx: Connection, kind: Kind, resource_id: str, tags: Sequence[str]) -> None:
    """Write the tags of a locked resource."""
    await tx.execute(UPDATE_TAGS[kind], resource_id, tags)
