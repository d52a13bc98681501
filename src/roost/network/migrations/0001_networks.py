"""Networks, segments, subnets, ports, addresses, and the rows that keep them and the ledger in step. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0001"
down_revision = None

SQL = """
CREATE TABLE network.network (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    project_id text NOT NULL,
    description text NOT NULL DEFAULT '',
    network_type text,
    physical_network text,
    segmentation_id integer,
    revision integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE network.segment (
    id uuid PRIMARY KEY,
    network_id uuid NOT NULL REFERENCES network.network,
    name text,
    description text NOT NULL DEFAULT '',
    network_type text NOT NULL,
    physical_network text,
    segmentation_id integer,
    revision integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX segment_network ON network.segment (network_id);
CREATE INDEX segment_physical_network ON network.segment (physical_network);
CREATE TABLE network.subnet (
    id uuid PRIMARY KEY,
    network_id uuid NOT NULL REFERENCES network.network,
    segment_id uuid REFERENCES network.segment,
    name text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    project_id text NOT NULL,
    ip_version smallint NOT NULL,
    cidr cidr NOT NULL,
    gateway_ip inet,
    enable_dhcp boolean NOT NULL DEFAULT true,
    -- Being deleted: no inventory counts its pools any more, but claims made before may still be assigned from it.
    deleting boolean NOT NULL DEFAULT false,
    revision integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX subnet_network ON network.subnet (network_id);
CREATE INDEX subnet_segment ON network.subnet (segment_id);
CREATE TABLE network.pool (
    subnet_id uuid NOT NULL REFERENCES network.subnet ON DELETE CASCADE,
    first_address inet NOT NULL,
    last_address inet NOT NULL,
    PRIMARY KEY (subnet_id, first_address)
);
-- What of the pools nobody holds, as ranges: taking n addresses reads at most n rows, however large the subnet.
CREATE TABLE network.free_range (
    subnet_id uuid NOT NULL REFERENCES network.subnet ON DELETE CASCADE,
    first_address inet NOT NULL,
    last_address inet NOT NULL,
    PRIMARY KEY (subnet_id, first_address)
);
CREATE TABLE network.port (
    id uuid PRIMARY KEY,
    network_id uuid NOT NULL,
    project_id text NOT NULL,
    name text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    mac_address text NOT NULL,
    admin_state_up boolean NOT NULL DEFAULT true,
    device_id text NOT NULL DEFAULT '',
    device_owner text NOT NULL DEFAULT '',
    ip_allocation text NOT NULL CHECK (ip_allocation IN ('immediate', 'deferred', 'none')),
    host text,
    vnic_type text NOT NULL DEFAULT 'normal',
    binding_profile jsonb NOT NULL DEFAULT '{}',
    vif_type text NOT NULL DEFAULT 'unbound',
    -- The server that Roost made it for; null for a user's own port.
    made_for uuid,
    -- A server's build holds the port: how it came (device_id, device_owner, host, ...), to be put back if it fails.
    reserved_from jsonb,
    revision integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (network_id, mac_address)
);
CREATE INDEX port_device ON network.port (device_id) WHERE device_id <> '';
CREATE TABLE network.address (
    subnet_id uuid NOT NULL,
    address inet NOT NULL,
    port_id uuid NOT NULL,
    in_pool boolean NOT NULL,
    -- The server whose build assigned it, until that server is ACTIVE: such an address does not pin the port.
    assigned_for uuid,
    PRIMARY KEY (subnet_id, address)
);
CREATE INDEX address_port ON network.address (port_id);
-- Written before a claim, deleted with the assignment: a claim without an address is left alone while this lives.
CREATE TABLE network.intent (
    port_id uuid PRIMARY KEY,
    revision integer NOT NULL,
    expires_at timestamptz NOT NULL
);
-- Written in the transaction that unassigns or deletes; the reconciler returns the claim and deletes the row.
CREATE TABLE network.release (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    port_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX release_port ON network.release (port_id);
-- What must be said to the ledger and to the host aggregates about a segment, or a network without segments.
CREATE TABLE network.publication (
    provider_uuid uuid PRIMARY KEY,
    wanted bigint NOT NULL DEFAULT 1,
    published bigint NOT NULL DEFAULT 0,
    lease_owner uuid,
    lease_until timestamptz
);
CREATE TABLE network.host (
    name text PRIMARY KEY,
    physical_networks text[] NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);
"""


def upgrade() -> None:
    """Create the tables."""
    for statement in statements(SQL):
        op.execute(statement)
