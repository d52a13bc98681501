-- The ledger: providers, inventories, traits, placement aggregates, consumers, allocations.
-- No foreign keys on the hot tables: the lock order of docs/design.md keeps them whole, an audit proves it, and each key
-- would cost a lookup for every row of every claim.
--
-- A new database is made from this file. The migrations beside it bring older ones to the same, which
-- tests/platform/test_schemas.py holds.

CREATE TABLE placement.resource_class (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

CREATE TABLE placement.trait (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE
);

CREATE TABLE placement.provider (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid uuid NOT NULL UNIQUE,
    name text NOT NULL UNIQUE,
    parent_id bigint REFERENCES placement.provider,
    root_id bigint NOT NULL,
    generation bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    network_id uuid
) WITH (fillfactor = 50);
CREATE INDEX provider_root ON placement.provider (root_id);
CREATE INDEX provider_parent ON placement.provider (parent_id);

CREATE TABLE placement.inventory (
    provider_id bigint NOT NULL,
    resource_class_id integer NOT NULL,
    total integer NOT NULL,
    reserved integer NOT NULL,
    min_unit integer NOT NULL,
    max_unit integer NOT NULL,
    step_size integer NOT NULL,
    allocation_ratio double precision NOT NULL,
    used bigint NOT NULL DEFAULT 0 CHECK (used >= 0),
    PRIMARY KEY (provider_id, resource_class_id)
) WITH (fillfactor = 50);

CREATE TABLE placement.provider_trait (
    provider_id bigint NOT NULL,
    trait_id integer NOT NULL,
    PRIMARY KEY (provider_id, trait_id)
);
CREATE INDEX provider_trait_trait ON placement.provider_trait (trait_id);

CREATE TABLE placement.provider_aggregate (
    provider_id bigint NOT NULL,
    aggregate_uuid uuid NOT NULL,
    PRIMARY KEY (provider_id, aggregate_uuid)
);
CREATE INDEX provider_aggregate_aggregate ON placement.provider_aggregate (aggregate_uuid);

CREATE TABLE placement.consumer (
    uuid uuid PRIMARY KEY,
    generation bigint NOT NULL DEFAULT 0,
    consumer_type text,
    project_id text NOT NULL,
    user_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX consumer_project ON placement.consumer (project_id, user_id);
CREATE INDEX consumer_port_user ON placement.consumer (user_id) WHERE consumer_type = 'PORT';

CREATE TABLE placement.allocation (
    consumer_uuid uuid NOT NULL,
    provider_id bigint NOT NULL,
    resource_class_id integer NOT NULL,
    used integer NOT NULL,
    PRIMARY KEY (consumer_uuid, provider_id, resource_class_id)
);
CREATE INDEX allocation_provider ON placement.allocation (provider_id);

-- What changed: one row or more for each transaction that changed what an index holds, written by that transaction. A
-- batch of claims names hundreds of providers: up to a page of them stays in the row, neither compressed nor moved out.
CREATE TABLE placement.change (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    reshaped boolean NOT NULL,
    provider_ids bigint[] NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX change_xid ON placement.change (xid);

-- Rows of transactions below `xid` may be gone; `noted_xid` is the horizon to be, once it is old enough.
CREATE TABLE placement.change_horizon (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    xid xid8 NOT NULL,
    noted_xid xid8 NOT NULL,
    noted_at timestamptz NOT NULL
);
INSERT INTO placement.change_horizon (xid, noted_xid, noted_at)
VALUES ('0', pg_snapshot_xmin(pg_current_snapshot()), now());

-- What the last import left of providers and consumers: what is not so was written in Roost since.
CREATE TABLE placement.imported (
    is_provider boolean NOT NULL,
    uuid uuid NOT NULL,
    generation bigint NOT NULL,
    PRIMARY KEY (is_provider, uuid)
);

-- What the last round with Neutron saw of its addresses, and when it ended, for /metrics/openstack of every process.
CREATE TABLE placement.neutron_figures (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    figures jsonb NOT NULL,
    ended_at timestamptz
);

-- When a search was seen last that names segments, as Nova's filter for routed networks does, and one that does not.
CREATE TABLE placement.searches_seen (
    names_segments boolean PRIMARY KEY,
    seen_at timestamptz NOT NULL
);

-- Claims that were refused, searches that found nothing, and repairs: roost.platform.events.Event.
CREATE TABLE placement.event (
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
    -- The consumers, each with its request: roost.platform.events.Subject.
    subjects jsonb NOT NULL,
    count integer NOT NULL
);
CREATE INDEX event_at ON placement.event (at, id);
CREATE INDEX event_subjects ON placement.event USING gin (subjects jsonb_path_ops);
