"""What the whole Network API keeps of networks, segments, subnets and ports. Before."""

from alembic import op

from roost.platform.migrate import statements

revision = "network_0002"
down_revision = "network_0001"

SQL = """
ALTER TABLE network.network
    ADD COLUMN admin_state_up boolean NOT NULL DEFAULT true,
    ADD COLUMN shared boolean NOT NULL DEFAULT false,
    ADD COLUMN external boolean NOT NULL DEFAULT false,
    ADD COLUMN mtu integer NOT NULL DEFAULT 1500,
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
ALTER TABLE network.segment ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
ALTER TABLE network.subnet
    ADD COLUMN dns_nameservers text[] NOT NULL DEFAULT '{}',
    -- What its owner gave: those to the peers of a routed network are computed.
    ADD COLUMN host_routes jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN ipv6_ra_mode text,
    ADD COLUMN ipv6_address_mode text,
    ADD COLUMN service_types text[] NOT NULL DEFAULT '{}',
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
ALTER TABLE network.port ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
-- Whether the port's claim counts the address: one outside the pools, or of a subnet that is no capacity, is not.
ALTER TABLE network.address ADD COLUMN claimed boolean;
UPDATE network.address SET claimed = in_pool;
ALTER TABLE network.address ALTER COLUMN claimed SET NOT NULL;
-- What a pool loses when the subnet's change in progress ends: still given to who has a claim, counted no more.
ALTER TABLE network.pool ADD COLUMN leaving boolean NOT NULL DEFAULT false;
-- A change in progress: the subnet is as wanted, the ledger is being told, and this is how to take it back.
ALTER TABLE network.subnet ADD COLUMN change jsonb;
-- Ports that were there before it are still to get the addresses that follow from their MACs.
ALTER TABLE network.subnet ADD COLUMN spreading boolean NOT NULL DEFAULT false;
CREATE INDEX subnet_changing ON network.subnet (id) WHERE change IS NOT NULL OR deleting;
-- A port's inactive bindings, as live migration makes them; the active one is in its port's row.
CREATE TABLE network.binding (
    port_id uuid NOT NULL REFERENCES network.port ON DELETE CASCADE,
    host text NOT NULL,
    vnic_type text NOT NULL DEFAULT 'normal',
    binding_profile jsonb NOT NULL DEFAULT '{}',
    vif_type text NOT NULL,
    PRIMARY KEY (port_id, host)
);
CREATE TABLE network.quota (
    project_id text NOT NULL,
    resource text NOT NULL,
    maximum bigint NOT NULL,
    PRIMARY KEY (project_id, resource)
);
-- Servers whose ports a client changed or deleted, until compute knows. lost_port_id: deleted while a build held it.
CREATE TABLE network.notice (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    server_id uuid NOT NULL,
    lost_port_id uuid
);
CREATE INDEX notice_server ON network.notice (server_id);
CREATE INDEX port_project ON network.port (project_id);
-- Ports are looked for by the address that somebody saw.
CREATE INDEX address_address ON network.address (address);
-- Flat networks of the legacy kind: their subnets are pools of cells, and addresses are servers' own, without ports.
ALTER TABLE network.network ADD COLUMN flat boolean NOT NULL DEFAULT false;
ALTER TABLE network.subnet ADD COLUMN cell text;
ALTER TABLE network.host ADD COLUMN cell text NOT NULL DEFAULT 'cell1';
CREATE TABLE network.flat_address (
    server_id uuid NOT NULL,
    tag text NOT NULL,
    network_id uuid NOT NULL,
    subnet_id uuid NOT NULL,
    address inet NOT NULL,
    mac_address text NOT NULL,
    -- The fence: who asks with a lower ticket was overtaken.
    ticket bigint NOT NULL,
    PRIMARY KEY (server_id, tag),
    UNIQUE (subnet_id, address),
    UNIQUE (network_id, mac_address)
);
CREATE SEQUENCE network.flat_ticket;
"""


def upgrade() -> None:
    """Add the columns and tables."""
    for statement in statements(SQL):
        op.execute(statement)
