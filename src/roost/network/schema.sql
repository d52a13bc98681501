-- Networks, segments, subnets, ports, addresses, and the rows that keep them and the ledger in step.
--
-- A new database is made from this file. The migrations beside it bring older ones to the same, which
-- tests/platform/test_schemas.py holds.

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
    updated_at timestamptz NOT NULL DEFAULT now(),
    admin_state_up boolean NOT NULL DEFAULT true,
    shared boolean NOT NULL DEFAULT false,
    external boolean NOT NULL DEFAULT false,
    mtu integer NOT NULL DEFAULT 1500,
    tags text[] NOT NULL DEFAULT '{}',
    -- Of the legacy kind: its subnets are pools of cells, and addresses are servers' own, without ports.
    flat boolean NOT NULL DEFAULT false,
    -- Of ports that are made on it and say nothing themselves.
    port_security_enabled boolean NOT NULL DEFAULT true
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
    updated_at timestamptz NOT NULL DEFAULT now(),
    tags text[] NOT NULL DEFAULT '{}'
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
    revision integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    dns_nameservers text[] NOT NULL DEFAULT '{}',
    -- What its owner gave: those to the peers of a routed network are computed.
    host_routes jsonb NOT NULL DEFAULT '[]',
    ipv6_ra_mode text,
    ipv6_address_mode text,
    service_types text[] NOT NULL DEFAULT '{}',
    tags text[] NOT NULL DEFAULT '{}',
    -- Ports that were there before it are still to get the addresses that follow from their MACs.
    spreading boolean NOT NULL DEFAULT false,
    -- Of a flat network: whose pool it is.
    cell text,
    -- The resource provider whose inventory counts the pools: of a flat network, the subnet's own.
    provider_uuid uuid GENERATED ALWAYS AS (CASE WHEN cell IS NULL THEN coalesce(segment_id, network_id) ELSE id END) STORED
);
CREATE INDEX subnet_network ON network.subnet (network_id);
CREATE INDEX subnet_segment ON network.subnet (segment_id);
CREATE INDEX subnet_provider ON network.subnet (provider_uuid);

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
    tags text[] NOT NULL DEFAULT '{}',
    -- On a flat network: the tag of its server's NIC. Such a port is never shown, and its address is claimed by the server.
    -- Of an unknown guest (device_owner roost:held, made_for its server): empty; its address is claimed by nobody.
    nic_tag text,
    -- What its guest sends is held to its addresses, and to these pairs: roost.network.model.ports.AddressPair.
    port_security_enabled boolean NOT NULL DEFAULT true,
    allowed_address_pairs jsonb,
    -- Of a hidden port that keeps what its server's guest may still have: when the server lost it.
    left_at timestamptz,
    UNIQUE (network_id, mac_address)
) WITH (fillfactor = 50);
CREATE INDEX port_device ON network.port (device_id) WHERE device_id <> '';
CREATE INDEX port_project ON network.port (project_id);
CREATE INDEX port_unknown_guest ON network.port (host) WHERE device_owner = 'roost:held' AND nic_tag IS NOT NULL;

CREATE TABLE network.address (
    subnet_id uuid NOT NULL,
    address inet NOT NULL,
    port_id uuid NOT NULL,
    in_pool boolean NOT NULL,
    -- The server whose build assigned it, until that server is ACTIVE: such an address does not pin the port.
    assigned_for uuid,
    -- Whether the port's claim counts it: one outside the pools, or of a subnet that is no capacity, is not.
    claimed boolean NOT NULL,
    PRIMARY KEY (subnet_id, address)
) WITH (fillfactor = 50);
CREATE INDEX address_port ON network.address (port_id);
-- Ports are looked for by the address that somebody saw.
CREATE INDEX address_address ON network.address (address);
-- What capacity counts apart from the pools: claimed outside of them, or held in them unclaimed.
CREATE INDEX address_apart ON network.address (subnet_id) WHERE claimed <> in_pool;

-- Addresses of guests that the records do not know, or that their servers have lost, whoever has them now: held once
-- nobody else has.
-- port_id: the hidden port of the guest's NIC, of which a row without a port says nothing.
CREATE TABLE network.listed_address (
    subnet_id uuid NOT NULL REFERENCES network.subnet ON DELETE CASCADE,
    address inet NOT NULL,
    port_id uuid NOT NULL,
    PRIMARY KEY (subnet_id, address, port_id)
);
CREATE INDEX listed_address_port ON network.listed_address (port_id);

-- Written before a claim, deleted with the assignment: a claim without an address is left alone while this lives.
CREATE TABLE network.intent (
    port_id uuid PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    -- Whose it is: a later request of the same port has a higher one.
    ticket bigint GENERATED ALWAYS AS IDENTITY
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
CREATE INDEX publication_due ON network.publication (provider_uuid) WHERE wanted > published;

CREATE TABLE network.host (
    name text PRIMARY KEY,
    physical_networks text[] NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    cell text NOT NULL DEFAULT 'cell1',
    agent_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- When its unknown guests were read that hold addresses now; what was read earlier changes nothing any more.
    guests_as_of timestamptz
);
CREATE INDEX host_agent ON network.host (agent_id);

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

-- Notifications that a destination has not taken yet, by destination. roost.platform.outbox.Notification.
CREATE TABLE network.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY,
    destination text NOT NULL,
    -- What they are about: those of one are delivered in order.
    subject text NOT NULL,
    notification json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Of one that was refused: how often, why, and when it is tried again. parked_at: it is not.
    tries integer NOT NULL DEFAULT 0,
    reason text,
    due_at timestamptz,
    parked_at timestamptz,
    PRIMARY KEY (destination, id)
-- Rows do not last: to compress them costs more than the room that they take.
) WITH (toast_tuple_target = 8160);
CREATE INDEX outbox_refused ON network.outbox (destination, subject) WHERE due_at IS NOT NULL;
-- Who delivers to a destination now; since when it takes nothing, and why.
CREATE TABLE network.outbox_destination (
    name text PRIMARY KEY,
    lease_owner uuid,
    lease_until timestamptz,
    failures integer NOT NULL DEFAULT 0,
    reason text,
    due_at timestamptz
);

-- What was repaired of networks and ports: roost.platform.events.Event.
CREATE TABLE network.event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL,
    action text NOT NULL,
    requirement text NOT NULL,
    project_id text,
    host text,
    source_host text,
    network_id text,
    network text NOT NULL,
    segment_id text,
    segment text NOT NULL,
    reason text NOT NULL,
    -- (requirement, hosts left), in order.
    funnel jsonb NOT NULL,
    -- The servers, each with its request: roost.platform.events.Subject.
    subjects jsonb NOT NULL,
    count integer NOT NULL
);
CREATE INDEX event_at ON network.event (at, id);
CREATE INDEX event_subjects ON network.event USING gin (subjects jsonb_path_ops);
