SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA compute;
CREATE SCHEMA network;
CREATE SCHEMA placement;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE compute.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE compute.flavor (
    id text NOT NULL,
    name text NOT NULL,
    vcpus integer NOT NULL,
    ram_mb integer NOT NULL,
    disk_gb integer NOT NULL,
    description text,
    extra_specs jsonb DEFAULT '{}'::jsonb NOT NULL,
    is_public boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE compute.guest (
    server_id uuid NOT NULL,
    host text NOT NULL,
    attempt integer NOT NULL,
    desired text NOT NULL,
    begun_at timestamp with time zone,
    reported text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT guest_desired_check CHECK ((desired = ANY (ARRAY['running'::text, 'absent'::text]))),
    CONSTRAINT guest_reported_check CHECK ((reported = ANY (ARRAY['running'::text, 'failed'::text, 'absent'::text])))
)
WITH (fillfactor='70');
CREATE TABLE compute.host (
    name text NOT NULL,
    provider_uuid uuid NOT NULL,
    vcpus integer NOT NULL,
    ram_mb integer NOT NULL,
    disk_gb integer NOT NULL,
    physical_networks text[] NOT NULL,
    declared boolean DEFAULT false NOT NULL,
    wanted bigint DEFAULT 1 NOT NULL,
    published bigint DEFAULT 0 NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    forced_down boolean DEFAULT false NOT NULL,
    service_version integer DEFAULT 0 NOT NULL,
    seen_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    cell text DEFAULT 'cell1'::text NOT NULL
);
CREATE TABLE compute.host_aggregate (
    id integer NOT NULL,
    uuid uuid NOT NULL,
    name text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE compute.host_aggregate_host (
    aggregate_uuid uuid NOT NULL,
    host text NOT NULL
);
ALTER TABLE compute.host_aggregate ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME compute.host_aggregate_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE compute.server (
    id uuid NOT NULL,
    sequence bigint NOT NULL,
    name text NOT NULL,
    project_id text NOT NULL,
    user_id text NOT NULL,
    flavor jsonb NOT NULL,
    image_ref text DEFAULT ''::text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    description text,
    reservation_id text DEFAULT ''::text NOT NULL,
    launch_index integer DEFAULT 0 NOT NULL,
    spec jsonb NOT NULL,
    network_info jsonb DEFAULT '[]'::jsonb NOT NULL,
    status text DEFAULT 'BUILD'::text NOT NULL,
    task_state text,
    host text,
    fault jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    launched_at timestamp with time zone,
    deleted_at timestamp with time zone
)
WITH (fillfactor='70');
ALTER TABLE compute.server ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME compute.server_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE compute.work (
    server_id uuid NOT NULL,
    stage text NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    excluded_hosts text[] DEFAULT '{}'::text[] NOT NULL,
    placed jsonb,
    failure jsonb,
    deleting boolean DEFAULT false NOT NULL,
    lease_owner uuid,
    lease_until timestamp with time zone,
    run_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    must_fail jsonb
)
WITH (fillfactor='50');
CREATE TABLE network.address (
    subnet_id uuid NOT NULL,
    address inet NOT NULL,
    port_id uuid NOT NULL,
    in_pool boolean NOT NULL,
    assigned_for uuid,
    claimed boolean NOT NULL
);
CREATE TABLE network.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE network.binding (
    port_id uuid NOT NULL,
    host text NOT NULL,
    vnic_type text DEFAULT 'normal'::text NOT NULL,
    binding_profile jsonb DEFAULT '{}'::jsonb NOT NULL,
    vif_type text NOT NULL
);
CREATE TABLE network.flat_address (
    server_id uuid NOT NULL,
    tag text NOT NULL,
    network_id uuid NOT NULL,
    subnet_id uuid NOT NULL,
    address inet NOT NULL,
    mac_address text NOT NULL,
    ticket bigint NOT NULL
);
CREATE SEQUENCE network.flat_ticket
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE network.free_range (
    subnet_id uuid NOT NULL,
    first_address inet NOT NULL,
    last_address inet NOT NULL
);
CREATE TABLE network.host (
    name text NOT NULL,
    physical_networks text[] NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    cell text DEFAULT 'cell1'::text NOT NULL
);
CREATE TABLE network.intent (
    port_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ticket bigint NOT NULL
);
ALTER TABLE network.intent ALTER COLUMN ticket ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME network.intent_ticket_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE network.network (
    id uuid NOT NULL,
    name text NOT NULL,
    project_id text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    network_type text,
    physical_network text,
    segmentation_id integer,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    admin_state_up boolean DEFAULT true NOT NULL,
    shared boolean DEFAULT false NOT NULL,
    external boolean DEFAULT false NOT NULL,
    mtu integer DEFAULT 1500 NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    flat boolean DEFAULT false NOT NULL
);
CREATE TABLE network.notice (
    id bigint NOT NULL,
    server_id uuid NOT NULL,
    lost_port_id uuid
);
ALTER TABLE network.notice ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME network.notice_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE network.pool (
    subnet_id uuid NOT NULL,
    first_address inet NOT NULL,
    last_address inet NOT NULL,
    leaving boolean DEFAULT false NOT NULL
);
CREATE TABLE network.port (
    id uuid NOT NULL,
    network_id uuid NOT NULL,
    project_id text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    mac_address text NOT NULL,
    admin_state_up boolean DEFAULT true NOT NULL,
    device_id text DEFAULT ''::text NOT NULL,
    device_owner text DEFAULT ''::text NOT NULL,
    ip_allocation text NOT NULL,
    host text,
    vnic_type text DEFAULT 'normal'::text NOT NULL,
    binding_profile jsonb DEFAULT '{}'::jsonb NOT NULL,
    vif_type text DEFAULT 'unbound'::text NOT NULL,
    made_for uuid,
    reserved_from jsonb,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT port_ip_allocation_check CHECK ((ip_allocation = ANY (ARRAY['immediate'::text, 'deferred'::text, 'none'::text])))
);
CREATE TABLE network.publication (
    provider_uuid uuid NOT NULL,
    wanted bigint DEFAULT 1 NOT NULL,
    published bigint DEFAULT 0 NOT NULL,
    lease_owner uuid,
    lease_until timestamp with time zone
);
CREATE TABLE network.quota (
    project_id text NOT NULL,
    resource text NOT NULL,
    maximum bigint NOT NULL
);
CREATE TABLE network.release (
    id bigint NOT NULL,
    port_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE network.release ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME network.release_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE network.segment (
    id uuid NOT NULL,
    network_id uuid NOT NULL,
    name text,
    description text DEFAULT ''::text NOT NULL,
    network_type text NOT NULL,
    physical_network text,
    segmentation_id integer,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL
);
CREATE TABLE network.subnet (
    id uuid NOT NULL,
    network_id uuid NOT NULL,
    segment_id uuid,
    name text DEFAULT ''::text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    project_id text NOT NULL,
    ip_version smallint NOT NULL,
    cidr cidr NOT NULL,
    gateway_ip inet,
    enable_dhcp boolean DEFAULT true NOT NULL,
    deleting boolean DEFAULT false NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    dns_nameservers text[] DEFAULT '{}'::text[] NOT NULL,
    host_routes jsonb DEFAULT '[]'::jsonb NOT NULL,
    ipv6_ra_mode text,
    ipv6_address_mode text,
    service_types text[] DEFAULT '{}'::text[] NOT NULL,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    change jsonb,
    spreading boolean DEFAULT false NOT NULL,
    cell text
);
CREATE TABLE placement.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE placement.allocation (
    consumer_uuid uuid NOT NULL,
    provider_id bigint NOT NULL,
    resource_class_id integer NOT NULL,
    used integer NOT NULL
);
CREATE TABLE placement.change (
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    reshaped boolean NOT NULL,
    provider_ids bigint[] NOT NULL
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_insert_threshold='-1');
CREATE TABLE placement.change_horizon (
    single boolean DEFAULT true NOT NULL,
    xid xid8 NOT NULL,
    noted_xid xid8 NOT NULL,
    noted_at timestamp with time zone NOT NULL,
    CONSTRAINT change_horizon_single_check CHECK (single)
);
CREATE TABLE placement.consumer (
    uuid uuid NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    consumer_type text,
    project_id text NOT NULL,
    user_id text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE placement.inventory (
    provider_id bigint NOT NULL,
    resource_class_id integer NOT NULL,
    total integer NOT NULL,
    reserved integer NOT NULL,
    min_unit integer NOT NULL,
    max_unit integer NOT NULL,
    step_size integer NOT NULL,
    allocation_ratio double precision NOT NULL,
    used bigint DEFAULT 0 NOT NULL,
    CONSTRAINT inventory_used_check CHECK ((used >= 0))
)
WITH (fillfactor='50');
CREATE TABLE placement.provider (
    id bigint NOT NULL,
    uuid uuid NOT NULL,
    name text NOT NULL,
    parent_id bigint,
    root_id bigint NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE placement.provider_aggregate (
    provider_id bigint NOT NULL,
    aggregate_uuid uuid NOT NULL
);
ALTER TABLE placement.provider ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME placement.provider_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE placement.provider_trait (
    provider_id bigint NOT NULL,
    trait_id integer NOT NULL
);
CREATE TABLE placement.resource_class (
    id integer NOT NULL,
    name text NOT NULL
);
ALTER TABLE placement.resource_class ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME placement.resource_class_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE placement.trait (
    id integer NOT NULL,
    name text NOT NULL
);
ALTER TABLE placement.trait ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME placement.trait_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
COPY compute.alembic_version (version_num) FROM stdin;
compute_0003
\.
COPY compute.flavor (id, name, vcpus, ram_mb, disk_gb, description, extra_specs, is_public, created_at) FROM stdin;
cf27b746-6714-48f1-a2be-cd02e3be242b	small	1	1024	10	\N	{}	t	2026-11-22 13:35:30.908062+00
\.
COPY compute.guest (server_id, host, attempt, desired, begun_at, reported, created_at) FROM stdin;
a8502f40-fdad-4999-95bc-52413a4fe0eb	r2-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
5e937be9-fc2e-49c4-8f7e-384d99498809	r1-h2	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.844506+00
5005579a-4c38-4870-bee0-61143d42cbaf	r2-h2	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	r1-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
967afd73-43ab-403f-a470-a790366fb324	r1-h2	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	r1-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.844506+00
cfc5540a-8a13-42d0-a155-d22cdde13c1d	r1-h2	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
2c0e7653-5355-46bc-8751-3b2ff8d37e34	r2-h2	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.844506+00
86597d9c-0014-4689-b049-d5a04ef1e3a5	r2-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.868913+00
fb87705e-209f-4444-b845-9c78a1043f42	r1-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.844506+00
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	r2-h1	1	running	2026-11-22 13:35:32.127124+00	running	2026-11-22 13:35:31.844506+00
c29323bb-0e86-48fc-842e-e307951e4f91	r2-h2	1	running	2026-11-22 13:35:32.334758+00	running	2026-11-22 13:35:32.3207+00
\.
COPY compute.host (name, provider_uuid, vcpus, ram_mb, disk_gb, physical_networks, declared, wanted, published, disabled, forced_down, service_version, seen_at, created_at, updated_at, cell) FROM stdin;
r1-h1	be8c13d8-5a69-566f-a155-49fc16dae2ce	8	16384	200	{rack1}	t	1	1	f	f	0	2026-11-22 13:35:32.112204+00	2026-11-22 13:35:31.216533+00	2026-11-22 13:35:31.216533+00	cell1
r2-h1	7a91f054-ed7d-5b9e-8678-cf801a34e933	8	16384	200	{rack2}	t	1	1	f	f	0	2026-11-22 13:35:32.112204+00	2026-11-22 13:35:31.216533+00	2026-11-22 13:35:31.216533+00	cell2
r1-h2	874856f3-5e8f-518d-b402-2b0b2f516145	8	16384	200	{rack1}	t	1	1	f	f	0	2026-11-22 13:35:32.112204+00	2026-11-22 13:35:31.216533+00	2026-11-22 13:35:31.216533+00	cell1
r2-h2	f064109c-0b08-5840-8ec4-1c8e396b23ae	8	16384	200	{rack2}	t	1	1	f	f	0	2026-11-22 13:35:32.112204+00	2026-11-22 13:35:31.216533+00	2026-11-22 13:35:31.216533+00	cell2
\.
COPY compute.host_aggregate (id, uuid, name, metadata, created_at, updated_at) FROM stdin;
1	2e3c0ba9-a126-501f-a525-9471ebbf9f09	Neutron segment id 9deb42d2-c889-4f55-afe3-95f905c1a076	{}	2026-11-22 13:35:31.016376+00	2026-11-22 13:35:31.016376+00
2	6eccdc5e-20ac-5cbb-965a-5790cb06876c	Neutron segment id df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c	{}	2026-11-22 13:35:31.022864+00	2026-11-22 13:35:31.022864+00
3	ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28	Flat pool id d1be7bd3-5a28-444e-9931-a6badbbb59d8	{}	2026-11-22 13:35:31.138867+00	2026-11-22 13:35:31.138867+00
4	1bb1be3b-e4a2-5131-84c3-7ca48204241b	Flat pool id 57feff82-f247-423f-9082-4700bf2999e5	{}	2026-11-22 13:35:31.142133+00	2026-11-22 13:35:31.142133+00
5	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0	all-hosts	{}	2026-11-22 13:35:31.18939+00	2026-11-22 13:35:31.18939+00
\.
COPY compute.host_aggregate_host (aggregate_uuid, host) FROM stdin;
1bb1be3b-e4a2-5131-84c3-7ca48204241b	r2-h1
1bb1be3b-e4a2-5131-84c3-7ca48204241b	r2-h2
2e3c0ba9-a126-501f-a525-9471ebbf9f09	r1-h1
2e3c0ba9-a126-501f-a525-9471ebbf9f09	r1-h2
3d03ad95-9e67-50ef-8dda-1c726a7c0ac0	r1-h1
3d03ad95-9e67-50ef-8dda-1c726a7c0ac0	r1-h2
3d03ad95-9e67-50ef-8dda-1c726a7c0ac0	r2-h1
3d03ad95-9e67-50ef-8dda-1c726a7c0ac0	r2-h2
6eccdc5e-20ac-5cbb-965a-5790cb06876c	r2-h1
6eccdc5e-20ac-5cbb-965a-5790cb06876c	r2-h2
ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28	r1-h1
ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28	r1-h2
\.
COPY compute.server (id, sequence, name, project_id, user_id, flavor, image_ref, metadata, description, reservation_id, launch_index, spec, network_info, status, task_state, host, fault, created_at, updated_at, launched_at, deleted_at) FROM stdin;
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	1	web-1	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-c395893c	0	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "9031a122-f326-5a41-9d4a-4d18015a733e", "addresses": ["203.0.113.2"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:f5:e6:f7", "network_name": "public", "preserve_on_delete": false}]	ACTIVE	\N	r1-h1	\N	2026-11-22 13:35:31.573282+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
5e937be9-fc2e-49c4-8f7e-384d99498809	2	web-2	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-c395893c	1	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "270da00d-1eae-5ce5-b2de-c6c4f61e240f", "addresses": ["203.0.113.3"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:0d:65:cf", "network_name": "public", "preserve_on_delete": false}]	ACTIVE	\N	r1-h2	\N	2026-11-22 13:35:31.573282+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
cfc5540a-8a13-42d0-a155-d22cdde13c1d	8	old-3	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-b41ce3de	2	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": null, "addresses": ["192.0.2.2"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:20:b0:3d", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r1-h2	\N	2026-11-22 13:35:31.595813+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	3	web-3	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-c395893c	2	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "0bea1e7d-e41d-5bd8-9c31-94150ad9793c", "addresses": ["203.0.113.18"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:23:ca:e8", "network_name": "public", "preserve_on_delete": false}]	ACTIVE	\N	r2-h1	\N	2026-11-22 13:35:31.573282+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
2c0e7653-5355-46bc-8751-3b2ff8d37e34	4	web-4	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-c395893c	3	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "e2d3284f-bde6-5047-969e-69a556ba9a04", "addresses": ["203.0.113.19"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:d5:c5:68", "network_name": "public", "preserve_on_delete": false}]	ACTIVE	\N	r2-h2	\N	2026-11-22 13:35:31.573282+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
fb87705e-209f-4444-b845-9c78a1043f42	5	web-5	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-c395893c	4	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "a4dd0a37-7162-52e7-9a0d-85a8966b01a5", "addresses": ["203.0.113.4"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:88:bc:e2", "network_name": "public", "preserve_on_delete": false}]	ACTIVE	\N	r1-h1	\N	2026-11-22 13:35:31.573282+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
c29323bb-0e86-48fc-842e-e307951e4f91	12	with-port	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-abae6b6a	0	{"nics": [{"tag": "0", "port_id": "31ef1f56-bd95-49a6-b613-5c7c2b21c21f", "fixed_ip": null, "network_id": null}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "31ef1f56-bd95-49a6-b613-5c7c2b21c21f", "addresses": ["198.51.100.9"], "network_id": "dcf7012b-eda9-408c-8040-a25d801115cc", "mac_address": "fa:16:3e:69:0f:3e", "network_name": "plain", "preserve_on_delete": true}]	ACTIVE	\N	r2-h2	\N	2026-11-22 13:35:32.288679+00	2026-11-22 13:35:32.348928+00	2026-11-22 13:35:32.348928+00	\N
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	9	old-4	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-b41ce3de	3	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": null, "addresses": ["192.0.2.3"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:90:93:26", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r1-h1	\N	2026-11-22 13:35:31.595813+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
5005579a-4c38-4870-bee0-61143d42cbaf	6	old-1	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-b41ce3de	0	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": null, "addresses": ["192.0.2.18"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:b7:dd:0e", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r2-h2	\N	2026-11-22 13:35:31.595813+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
86597d9c-0014-4689-b049-d5a04ef1e3a5	7	old-2	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-b41ce3de	1	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": null, "addresses": ["192.0.2.19"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:16:fd:db", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r2-h1	\N	2026-11-22 13:35:31.595813+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
967afd73-43ab-403f-a470-a790366fb324	10	both-1	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-04763b82	0	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}, {"tag": "1", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "505de18e-0238-559e-9f9e-f06ec0e42258", "addresses": ["203.0.113.5"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:b7:73:a6", "network_name": "public", "preserve_on_delete": false}, {"tag": "1", "port_id": null, "addresses": ["192.0.2.4"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:6f:17:f8", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r1-h2	\N	2026-11-22 13:35:31.612809+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
a8502f40-fdad-4999-95bc-52413a4fe0eb	11	both-2	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	{"id": "cf27b746-6714-48f1-a2be-cd02e3be242b", "name": "small", "vcpus": 1, "ram_mb": 1024, "disk_gb": 10, "is_public": true, "description": null, "extra_specs": {}}		{}	\N	r-04763b82	1	{"nics": [{"tag": "0", "port_id": null, "fixed_ip": null, "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c"}, {"tag": "1", "port_id": null, "fixed_ip": null, "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860"}], "vcpus": 1, "disk_gb": 10, "memory_mb": 1024, "availability_zone": null}	[{"tag": "0", "port_id": "3e89142f-1ea4-5adc-b11a-48fbdd8621b4", "addresses": ["203.0.113.20"], "network_id": "cc6a67f3-afc5-4c77-8f34-128ff35a102c", "mac_address": "fa:16:3e:45:85:47", "network_name": "public", "preserve_on_delete": false}, {"tag": "1", "port_id": null, "addresses": ["192.0.2.20"], "network_id": "42f6cc1f-3c6b-43ea-a7fd-68364e384860", "mac_address": "fa:16:3e:04:b5:87", "network_name": "legacy", "preserve_on_delete": false}]	ACTIVE	\N	r2-h1	\N	2026-11-22 13:35:31.612809+00	2026-11-22 13:35:32.138236+00	2026-11-22 13:35:32.138236+00	\N
\.
COPY compute.work (server_id, stage, attempt, failures, excluded_hosts, placed, failure, deleting, lease_owner, lease_until, run_at, created_at, must_fail) FROM stdin;
\.
COPY network.address (subnet_id, address, port_id, in_pool, assigned_for, claimed) FROM stdin;
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.2	9031a122-f326-5a41-9d4a-4d18015a733e	t	\N	t
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.3	270da00d-1eae-5ce5-b2de-c6c4f61e240f	t	\N	t
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.4	a4dd0a37-7162-52e7-9a0d-85a8966b01a5	t	\N	t
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.5	505de18e-0238-559e-9f9e-f06ec0e42258	t	\N	t
b6433578-8044-4092-acb2-7d2bb032934a	203.0.113.18	0bea1e7d-e41d-5bd8-9c31-94150ad9793c	t	\N	t
b6433578-8044-4092-acb2-7d2bb032934a	203.0.113.19	e2d3284f-bde6-5047-969e-69a556ba9a04	t	\N	t
b6433578-8044-4092-acb2-7d2bb032934a	203.0.113.20	3e89142f-1ea4-5adc-b11a-48fbdd8621b4	t	\N	t
b6e58a52-1150-41f5-937a-e972b3e4468c	198.51.100.2	0938584d-e51d-4646-8c33-0c362c190a0b	t	\N	t
b6e58a52-1150-41f5-937a-e972b3e4468c	198.51.100.9	31ef1f56-bd95-49a6-b613-5c7c2b21c21f	t	\N	t
\.
COPY network.alembic_version (version_num) FROM stdin;
network_0003
\.
COPY network.binding (port_id, host, vnic_type, binding_profile, vif_type) FROM stdin;
\.
COPY network.flat_address (server_id, tag, network_id, subnet_id, address, mac_address, ticket) FROM stdin;
cfc5540a-8a13-42d0-a155-d22cdde13c1d	0	42f6cc1f-3c6b-43ea-a7fd-68364e384860	d1be7bd3-5a28-444e-9931-a6badbbb59d8	192.0.2.2	fa:16:3e:20:b0:3d	1
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	0	42f6cc1f-3c6b-43ea-a7fd-68364e384860	d1be7bd3-5a28-444e-9931-a6badbbb59d8	192.0.2.3	fa:16:3e:90:93:26	1
967afd73-43ab-403f-a470-a790366fb324	1	42f6cc1f-3c6b-43ea-a7fd-68364e384860	d1be7bd3-5a28-444e-9931-a6badbbb59d8	192.0.2.4	fa:16:3e:6f:17:f8	1
5005579a-4c38-4870-bee0-61143d42cbaf	0	42f6cc1f-3c6b-43ea-a7fd-68364e384860	57feff82-f247-423f-9082-4700bf2999e5	192.0.2.18	fa:16:3e:b7:dd:0e	1
86597d9c-0014-4689-b049-d5a04ef1e3a5	0	42f6cc1f-3c6b-43ea-a7fd-68364e384860	57feff82-f247-423f-9082-4700bf2999e5	192.0.2.19	fa:16:3e:16:fd:db	1
a8502f40-fdad-4999-95bc-52413a4fe0eb	1	42f6cc1f-3c6b-43ea-a7fd-68364e384860	57feff82-f247-423f-9082-4700bf2999e5	192.0.2.20	fa:16:3e:04:b5:87	1
\.
COPY network.free_range (subnet_id, first_address, last_address) FROM stdin;
d1be7bd3-5a28-444e-9931-a6badbbb59d8	192.0.2.5	192.0.2.14
57feff82-f247-423f-9082-4700bf2999e5	192.0.2.21	192.0.2.22
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.6	203.0.113.14
b6433578-8044-4092-acb2-7d2bb032934a	203.0.113.21	203.0.113.30
b6e58a52-1150-41f5-937a-e972b3e4468c	198.51.100.3	198.51.100.8
b6e58a52-1150-41f5-937a-e972b3e4468c	198.51.100.10	198.51.100.14
\.
COPY network.host (name, physical_networks, updated_at, cell) FROM stdin;
r1-h1	{rack1}	2026-11-22 13:35:31.238492+00	cell1
r1-h2	{rack1}	2026-11-22 13:35:31.238492+00	cell1
r2-h1	{rack2}	2026-11-22 13:35:31.238492+00	cell2
r2-h2	{rack2}	2026-11-22 13:35:31.238492+00	cell2
\.
COPY network.intent (port_id, expires_at, ticket) FROM stdin;
\.
COPY network.network (id, name, project_id, description, network_type, physical_network, segmentation_id, revision, created_at, updated_at, admin_state_up, shared, external, mtu, tags, flat) FROM stdin;
cc6a67f3-afc5-4c77-8f34-128ff35a102c	public	00000000-0000-0000-0000-00000000c10d		\N	\N	\N	1	2026-11-22 13:35:30.934801+00	2026-11-22 13:35:30.934801+00	t	f	f	1500	{}	f
42f6cc1f-3c6b-43ea-a7fd-68364e384860	legacy	00000000-0000-0000-0000-00000000c10d		\N	\N	\N	1	2026-11-22 13:35:31.12451+00	2026-11-22 13:35:31.12451+00	t	f	f	1500	{}	t
dcf7012b-eda9-408c-8040-a25d801115cc	plain	00000000-0000-0000-0000-00000000c10d		\N	\N	\N	1	2026-11-22 13:35:31.172486+00	2026-11-22 13:35:31.172486+00	t	f	f	1500	{}	f
\.
COPY network.notice (id, server_id, lost_port_id) FROM stdin;
\.
COPY network.pool (subnet_id, first_address, last_address, leaving) FROM stdin;
363cb186-0037-4c22-a354-621b85f87a3e	203.0.113.2	203.0.113.14	f
b6433578-8044-4092-acb2-7d2bb032934a	203.0.113.18	203.0.113.30	f
d1be7bd3-5a28-444e-9931-a6badbbb59d8	192.0.2.2	192.0.2.14	f
57feff82-f247-423f-9082-4700bf2999e5	192.0.2.18	192.0.2.22	f
b6e58a52-1150-41f5-937a-e972b3e4468c	198.51.100.2	198.51.100.14	f
\.
COPY network.port (id, network_id, project_id, name, description, mac_address, admin_state_up, device_id, device_owner, ip_allocation, host, vnic_type, binding_profile, vif_type, made_for, reserved_from, revision, created_at, updated_at, tags) FROM stdin;
31ef1f56-bd95-49a6-b613-5c7c2b21c21f	dcf7012b-eda9-408c-8040-a25d801115cc	00000000-0000-0000-0000-00000000c10d	own		fa:16:3e:69:0f:3e	t	c29323bb-0e86-48fc-842e-e307951e4f91	compute:nova	immediate	r2-h2	normal	{}	ovs	\N	\N	3	2026-11-22 13:35:32.278506+00	2026-11-22 13:35:32.358986+00	{}
9031a122-f326-5a41-9d4a-4d18015a733e	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:f5:e6:f7	t	35251d01-45e4-47c7-b3f7-ae591cb7ca5a	compute:nova	deferred	r1-h1	normal	{}	ovs	35251d01-45e4-47c7-b3f7-ae591cb7ca5a	\N	2	2026-11-22 13:35:31.589219+00	2026-11-22 13:35:32.151682+00	{}
270da00d-1eae-5ce5-b2de-c6c4f61e240f	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:0d:65:cf	t	5e937be9-fc2e-49c4-8f7e-384d99498809	compute:nova	deferred	r1-h2	normal	{}	ovs	5e937be9-fc2e-49c4-8f7e-384d99498809	\N	2	2026-11-22 13:35:31.589219+00	2026-11-22 13:35:32.151682+00	{}
0bea1e7d-e41d-5bd8-9c31-94150ad9793c	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:23:ca:e8	t	fa5f8580-11c3-40ee-8c72-dd8dfce6b335	compute:nova	deferred	r2-h1	normal	{}	ovs	fa5f8580-11c3-40ee-8c72-dd8dfce6b335	\N	2	2026-11-22 13:35:31.589219+00	2026-11-22 13:35:32.151682+00	{}
e2d3284f-bde6-5047-969e-69a556ba9a04	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:d5:c5:68	t	2c0e7653-5355-46bc-8751-3b2ff8d37e34	compute:nova	deferred	r2-h2	normal	{}	ovs	2c0e7653-5355-46bc-8751-3b2ff8d37e34	\N	2	2026-11-22 13:35:31.589219+00	2026-11-22 13:35:32.151682+00	{}
a4dd0a37-7162-52e7-9a0d-85a8966b01a5	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:88:bc:e2	t	fb87705e-209f-4444-b845-9c78a1043f42	compute:nova	deferred	r1-h1	normal	{}	ovs	fb87705e-209f-4444-b845-9c78a1043f42	\N	2	2026-11-22 13:35:31.589219+00	2026-11-22 13:35:32.151682+00	{}
505de18e-0238-559e-9f9e-f06ec0e42258	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:b7:73:a6	t	967afd73-43ab-403f-a470-a790366fb324	compute:nova	deferred	r1-h2	normal	{}	ovs	967afd73-43ab-403f-a470-a790366fb324	\N	2	2026-11-22 13:35:31.639882+00	2026-11-22 13:35:32.151682+00	{}
3e89142f-1ea4-5adc-b11a-48fbdd8621b4	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d			fa:16:3e:45:85:47	t	a8502f40-fdad-4999-95bc-52413a4fe0eb	compute:nova	deferred	r2-h1	normal	{}	ovs	a8502f40-fdad-4999-95bc-52413a4fe0eb	\N	2	2026-11-22 13:35:31.639882+00	2026-11-22 13:35:32.151682+00	{}
0938584d-e51d-4646-8c33-0c362c190a0b	dcf7012b-eda9-408c-8040-a25d801115cc	00000000-0000-0000-0000-00000000c10d	spare		fa:16:3e:1f:2e:00	t			immediate	\N	normal	{}	unbound	\N	\N	1	2026-11-22 13:35:32.24972+00	2026-11-22 13:35:32.24972+00	{}
0373080a-35ec-46c1-b8c4-136ffead3376	cc6a67f3-afc5-4c77-8f34-128ff35a102c	00000000-0000-0000-0000-00000000c10d	later		fa:16:3e:1f:be:8e	t			deferred	\N	normal	{}	unbound	\N	\N	1	2026-11-22 13:35:32.285013+00	2026-11-22 13:35:32.285013+00	{}
\.
COPY network.publication (provider_uuid, wanted, published, lease_owner, lease_until) FROM stdin;
9deb42d2-c889-4f55-afe3-95f905c1a076	1	1	\N	\N
df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c	1	1	\N	\N
d1be7bd3-5a28-444e-9931-a6badbbb59d8	1	1	\N	\N
57feff82-f247-423f-9082-4700bf2999e5	1	1	\N	\N
dcf7012b-eda9-408c-8040-a25d801115cc	1	1	\N	\N
\.
COPY network.quota (project_id, resource, maximum) FROM stdin;
\.
COPY network.release (id, port_id, created_at) FROM stdin;
\.
COPY network.segment (id, network_id, name, description, network_type, physical_network, segmentation_id, revision, created_at, updated_at, tags) FROM stdin;
9deb42d2-c889-4f55-afe3-95f905c1a076	cc6a67f3-afc5-4c77-8f34-128ff35a102c	rack1		vlan	rack1	101	1	2026-11-22 13:35:30.946875+00	2026-11-22 13:35:30.946875+00	{}
df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c	cc6a67f3-afc5-4c77-8f34-128ff35a102c	rack2		vlan	rack2	102	1	2026-11-22 13:35:30.952221+00	2026-11-22 13:35:30.952221+00	{}
\.
COPY network.subnet (id, network_id, segment_id, name, description, project_id, ip_version, cidr, gateway_ip, enable_dhcp, deleting, revision, created_at, updated_at, dns_nameservers, host_routes, ipv6_ra_mode, ipv6_address_mode, service_types, tags, change, spreading, cell) FROM stdin;
363cb186-0037-4c22-a354-621b85f87a3e	cc6a67f3-afc5-4c77-8f34-128ff35a102c	9deb42d2-c889-4f55-afe3-95f905c1a076			00000000-0000-0000-0000-00000000c10d	4	203.0.113.0/28	203.0.113.1	t	f	1	2026-11-22 13:35:30.995111+00	2026-11-22 13:35:30.995111+00	{}	[]	\N	\N	{}	{}	\N	f	\N
b6433578-8044-4092-acb2-7d2bb032934a	cc6a67f3-afc5-4c77-8f34-128ff35a102c	df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c			00000000-0000-0000-0000-00000000c10d	4	203.0.113.16/28	203.0.113.17	t	f	1	2026-11-22 13:35:30.99923+00	2026-11-22 13:35:30.99923+00	{}	[]	\N	\N	{}	{}	\N	f	\N
d1be7bd3-5a28-444e-9931-a6badbbb59d8	42f6cc1f-3c6b-43ea-a7fd-68364e384860	\N			00000000-0000-0000-0000-00000000c10d	4	192.0.2.0/28	192.0.2.1	t	f	1	2026-11-22 13:35:31.128795+00	2026-11-22 13:35:31.128795+00	{}	[]	\N	\N	{}	{}	\N	f	cell1
57feff82-f247-423f-9082-4700bf2999e5	42f6cc1f-3c6b-43ea-a7fd-68364e384860	\N			00000000-0000-0000-0000-00000000c10d	4	192.0.2.16/29	192.0.2.17	t	f	1	2026-11-22 13:35:31.132326+00	2026-11-22 13:35:31.132326+00	{}	[]	\N	\N	{}	{}	\N	f	cell2
b6e58a52-1150-41f5-937a-e972b3e4468c	dcf7012b-eda9-408c-8040-a25d801115cc	\N			00000000-0000-0000-0000-00000000c10d	4	198.51.100.0/28	198.51.100.1	t	f	1	2026-11-22 13:35:31.177125+00	2026-11-22 13:35:31.177125+00	{}	[]	\N	\N	{}	{}	\N	f	\N
\.
COPY placement.alembic_version (version_num) FROM stdin;
placement_0003
\.
COPY placement.allocation (consumer_uuid, provider_id, resource_class_id, used) FROM stdin;
5005579a-4c38-4870-bee0-61143d42cbaf	9	1	1
5005579a-4c38-4870-bee0-61143d42cbaf	9	2	1024
5005579a-4c38-4870-bee0-61143d42cbaf	9	3	10
5005579a-4c38-4870-bee0-61143d42cbaf	4	10	1
86597d9c-0014-4689-b049-d5a04ef1e3a5	6	1	1
86597d9c-0014-4689-b049-d5a04ef1e3a5	6	2	1024
86597d9c-0014-4689-b049-d5a04ef1e3a5	6	3	10
86597d9c-0014-4689-b049-d5a04ef1e3a5	4	10	1
cfc5540a-8a13-42d0-a155-d22cdde13c1d	7	1	1
cfc5540a-8a13-42d0-a155-d22cdde13c1d	7	2	1024
cfc5540a-8a13-42d0-a155-d22cdde13c1d	7	3	10
cfc5540a-8a13-42d0-a155-d22cdde13c1d	3	10	1
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	8	1	1
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	8	2	1024
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	8	3	10
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	3	10	1
967afd73-43ab-403f-a470-a790366fb324	7	1	1
967afd73-43ab-403f-a470-a790366fb324	7	2	1024
967afd73-43ab-403f-a470-a790366fb324	7	3	10
967afd73-43ab-403f-a470-a790366fb324	3	10	1
505de18e-0238-559e-9f9e-f06ec0e42258	1	10	1
a8502f40-fdad-4999-95bc-52413a4fe0eb	6	1	1
a8502f40-fdad-4999-95bc-52413a4fe0eb	6	2	1024
a8502f40-fdad-4999-95bc-52413a4fe0eb	6	3	10
a8502f40-fdad-4999-95bc-52413a4fe0eb	4	10	1
3e89142f-1ea4-5adc-b11a-48fbdd8621b4	2	10	1
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	8	1	1
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	8	2	1024
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	8	3	10
9031a122-f326-5a41-9d4a-4d18015a733e	1	10	1
5e937be9-fc2e-49c4-8f7e-384d99498809	7	1	1
5e937be9-fc2e-49c4-8f7e-384d99498809	7	2	1024
5e937be9-fc2e-49c4-8f7e-384d99498809	7	3	10
270da00d-1eae-5ce5-b2de-c6c4f61e240f	1	10	1
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	6	1	1
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	6	2	1024
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	6	3	10
0bea1e7d-e41d-5bd8-9c31-94150ad9793c	2	10	1
2c0e7653-5355-46bc-8751-3b2ff8d37e34	9	1	1
2c0e7653-5355-46bc-8751-3b2ff8d37e34	9	2	1024
2c0e7653-5355-46bc-8751-3b2ff8d37e34	9	3	10
e2d3284f-bde6-5047-969e-69a556ba9a04	2	10	1
fb87705e-209f-4444-b845-9c78a1043f42	8	1	1
fb87705e-209f-4444-b845-9c78a1043f42	8	2	1024
fb87705e-209f-4444-b845-9c78a1043f42	8	3	10
a4dd0a37-7162-52e7-9a0d-85a8966b01a5	1	10	1
0938584d-e51d-4646-8c33-0c362c190a0b	5	10	1
31ef1f56-bd95-49a6-b613-5c7c2b21c21f	5	10	1
c29323bb-0e86-48fc-842e-e307951e4f91	9	1	1
c29323bb-0e86-48fc-842e-e307951e4f91	9	2	1024
c29323bb-0e86-48fc-842e-e307951e4f91	9	3	10
\.
COPY placement.change (xid, reshaped, provider_ids) FROM stdin;
773	t	{1}
773	t	{1}
775	t	{2}
775	t	{2}
786	t	{3}
786	t	{3}
787	t	{4}
787	t	{4}
795	t	{5}
795	t	{5}
798	t	{6,7,8,9}
798	t	{8,7,6,9}
801	t	{6,7,8,9}
817	f	{1,2,3,4,6,7,8,9}
818	f	{1,2,6,7,8,9}
838	f	{5}
841	f	{5}
849	f	{9}
\.
COPY placement.change_horizon (single, xid, noted_xid, noted_at) FROM stdin;
t	0	753	2026-11-22 13:35:26.158272+00
\.
COPY placement.consumer (uuid, generation, consumer_type, project_id, user_id, created_at, updated_at) FROM stdin;
3e89142f-1ea4-5adc-b11a-48fbdd8621b4	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
5005579a-4c38-4870-bee0-61143d42cbaf	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
505de18e-0238-559e-9f9e-f06ec0e42258	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
86597d9c-0014-4689-b049-d5a04ef1e3a5	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
967afd73-43ab-403f-a470-a790366fb324	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
a8502f40-fdad-4999-95bc-52413a4fe0eb	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
cfc5540a-8a13-42d0-a155-d22cdde13c1d	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
d2ba4f52-3c57-4545-81c5-4ae644cf4e8c	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.780494+00	2026-11-22 13:35:31.780494+00
0bea1e7d-e41d-5bd8-9c31-94150ad9793c	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
270da00d-1eae-5ce5-b2de-c6c4f61e240f	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
2c0e7653-5355-46bc-8751-3b2ff8d37e34	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
35251d01-45e4-47c7-b3f7-ae591cb7ca5a	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
5e937be9-fc2e-49c4-8f7e-384d99498809	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
9031a122-f326-5a41-9d4a-4d18015a733e	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
a4dd0a37-7162-52e7-9a0d-85a8966b01a5	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
e2d3284f-bde6-5047-969e-69a556ba9a04	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
fa5f8580-11c3-40ee-8c72-dd8dfce6b335	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
fb87705e-209f-4444-b845-9c78a1043f42	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:31.787089+00	2026-11-22 13:35:31.787089+00
0938584d-e51d-4646-8c33-0c362c190a0b	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-00000000c10d	2026-11-22 13:35:32.242861+00	2026-11-22 13:35:32.242861+00
31ef1f56-bd95-49a6-b613-5c7c2b21c21f	1	PORT	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-00000000c10d	2026-11-22 13:35:32.273875+00	2026-11-22 13:35:32.273875+00
c29323bb-0e86-48fc-842e-e307951e4f91	1	INSTANCE	00000000-0000-0000-0000-00000000c10d	00000000-0000-0000-0000-0000000000ad	2026-11-22 13:35:32.307742+00	2026-11-22 13:35:32.307742+00
\.
COPY placement.inventory (provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used) FROM stdin;
4	10	5	0	1	5	1	1	3
3	10	13	0	1	13	1	1	3
8	1	8	0	1	8	1	1	3
8	2	16384	0	1	16384	1	1	3072
8	3	200	0	1	200	1	1	30
1	10	13	0	1	13	1	1	4
7	1	8	0	1	8	1	1	3
7	2	16384	0	1	16384	1	1	3072
7	3	200	0	1	200	1	1	30
6	1	8	0	1	8	1	1	3
6	2	16384	0	1	16384	1	1	3072
6	3	200	0	1	200	1	1	30
2	10	13	0	1	13	1	1	3
5	10	13	0	1	13	1	1	2
9	1	8	0	1	8	1	1	3
9	2	16384	0	1	16384	1	1	3072
9	3	200	0	1	200	1	1	30
\.
COPY placement.provider (id, uuid, name, parent_id, root_id, generation, created_at, updated_at) FROM stdin;
1	9deb42d2-c889-4f55-afe3-95f905c1a076	Neutron segment id 9deb42d2-c889-4f55-afe3-95f905c1a076	\N	1	3	2026-11-22 13:35:31.056386+00	2026-11-22 13:35:31.787089+00
2	df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c	Neutron segment id df8fc7f5-d65c-4f88-8c06-43a2d9ac5d2c	\N	2	3	2026-11-22 13:35:31.067098+00	2026-11-22 13:35:31.787089+00
6	7a91f054-ed7d-5b9e-8678-cf801a34e933	r2-h1	\N	6	4	2026-11-22 13:35:31.228595+00	2026-11-22 13:35:31.787089+00
7	874856f3-5e8f-518d-b402-2b0b2f516145	r1-h2	\N	7	4	2026-11-22 13:35:31.228595+00	2026-11-22 13:35:31.787089+00
3	d1be7bd3-5a28-444e-9931-a6badbbb59d8	Flat pool id d1be7bd3-5a28-444e-9931-a6badbbb59d8	\N	3	2	2026-11-22 13:35:31.148911+00	2026-11-22 13:35:31.780494+00
4	57feff82-f247-423f-9082-4700bf2999e5	Flat pool id 57feff82-f247-423f-9082-4700bf2999e5	\N	4	2	2026-11-22 13:35:31.151181+00	2026-11-22 13:35:31.780494+00
8	be8c13d8-5a69-566f-a155-49fc16dae2ce	r1-h1	\N	8	4	2026-11-22 13:35:31.228595+00	2026-11-22 13:35:31.787089+00
5	dcf7012b-eda9-408c-8040-a25d801115cc	Neutron network id dcf7012b-eda9-408c-8040-a25d801115cc	\N	5	3	2026-11-22 13:35:31.200223+00	2026-11-22 13:35:32.273875+00
9	f064109c-0b08-5840-8ec4-1c8e396b23ae	r2-h2	\N	9	5	2026-11-22 13:35:31.228595+00	2026-11-22 13:35:32.307742+00
\.
COPY placement.provider_aggregate (provider_id, aggregate_uuid) FROM stdin;
1	2e3c0ba9-a126-501f-a525-9471ebbf9f09
2	6eccdc5e-20ac-5cbb-965a-5790cb06876c
3	ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28
4	1bb1be3b-e4a2-5131-84c3-7ca48204241b
5	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0
6	1bb1be3b-e4a2-5131-84c3-7ca48204241b
6	6eccdc5e-20ac-5cbb-965a-5790cb06876c
6	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0
7	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0
7	ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28
7	2e3c0ba9-a126-501f-a525-9471ebbf9f09
8	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0
8	ee6fc3e5-a1bd-515e-bb5b-10c7ea001e28
8	2e3c0ba9-a126-501f-a525-9471ebbf9f09
9	1bb1be3b-e4a2-5131-84c3-7ca48204241b
9	6eccdc5e-20ac-5cbb-965a-5790cb06876c
9	3d03ad95-9e67-50ef-8dda-1c726a7c0ac0
\.
COPY placement.provider_trait (provider_id, trait_id) FROM stdin;
1	373
2	373
3	373
4	373
5	373
\.
COPY placement.resource_class (id, name) FROM stdin;
1	VCPU
2	MEMORY_MB
3	DISK_GB
4	PCI_DEVICE
5	SRIOV_NET_VF
6	NUMA_SOCKET
7	NUMA_CORE
8	NUMA_THREAD
9	NUMA_MEMORY_MB
10	IPV4_ADDRESS
11	VGPU
12	VGPU_DISPLAY_HEAD
13	NET_BW_EGR_KILOBIT_PER_SEC
14	NET_BW_IGR_KILOBIT_PER_SEC
15	PCPU
16	MEM_ENCRYPTION_CONTEXT
17	FPGA
18	PGPU
19	NET_PACKET_RATE_KILOPACKET_PER_SEC
20	NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC
21	NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC
\.
COPY placement.trait (id, name) FROM stdin;
1	COMPUTE_ACCELERATORS
2	COMPUTE_ADDRESS_SPACE_EMULATED
3	COMPUTE_ADDRESS_SPACE_PASSTHROUGH
4	COMPUTE_ARCH_AARCH64
5	COMPUTE_ARCH_MIPSEL
6	COMPUTE_ARCH_PPC64LE
7	COMPUTE_ARCH_RISCV64
8	COMPUTE_ARCH_S390X
9	COMPUTE_ARCH_X86_64
10	COMPUTE_CONFIG_DRIVE_REGENERATION
11	COMPUTE_DEVICE_TAGGING
12	COMPUTE_EPHEMERAL_ENCRYPTION
13	COMPUTE_EPHEMERAL_ENCRYPTION_LUKS
14	COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2
15	COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN
16	COMPUTE_FIRMWARE_BIOS
17	COMPUTE_FIRMWARE_UEFI
18	COMPUTE_GRAPHICS_MODEL_BOCHS
19	COMPUTE_GRAPHICS_MODEL_CIRRUS
20	COMPUTE_GRAPHICS_MODEL_GOP
21	COMPUTE_GRAPHICS_MODEL_NONE
22	COMPUTE_GRAPHICS_MODEL_QXL
23	COMPUTE_GRAPHICS_MODEL_VGA
24	COMPUTE_GRAPHICS_MODEL_VIRTIO
25	COMPUTE_GRAPHICS_MODEL_VMVGA
26	COMPUTE_GRAPHICS_MODEL_XEN
27	COMPUTE_IMAGE_TYPE_AKI
28	COMPUTE_IMAGE_TYPE_AMI
29	COMPUTE_IMAGE_TYPE_ARI
30	COMPUTE_IMAGE_TYPE_ISO
31	COMPUTE_IMAGE_TYPE_PLOOP
32	COMPUTE_IMAGE_TYPE_QCOW2
33	COMPUTE_IMAGE_TYPE_RAW
34	COMPUTE_IMAGE_TYPE_VDI
35	COMPUTE_IMAGE_TYPE_VHD
36	COMPUTE_IMAGE_TYPE_VHDX
37	COMPUTE_IMAGE_TYPE_VMDK
38	COMPUTE_MANAGED_PCI_DEVICE
39	COMPUTE_MEM_BACKING_FILE
40	COMPUTE_MIGRATE_AUTO_CONVERGE
41	COMPUTE_MIGRATE_POST_COPY
42	COMPUTE_NET_ATTACH_INTERFACE
43	COMPUTE_NET_ATTACH_INTERFACE_WITH_TAG
44	COMPUTE_NET_VIF_MODEL_E1000
45	COMPUTE_NET_VIF_MODEL_E1000E
46	COMPUTE_NET_VIF_MODEL_IGB
47	COMPUTE_NET_VIF_MODEL_LAN9118
48	COMPUTE_NET_VIF_MODEL_NE2K_PCI
49	COMPUTE_NET_VIF_MODEL_NETFRONT
50	COMPUTE_NET_VIF_MODEL_PCNET
51	COMPUTE_NET_VIF_MODEL_RTL8139
52	COMPUTE_NET_VIF_MODEL_SPAPR_VLAN
53	COMPUTE_NET_VIF_MODEL_SRIOV
54	COMPUTE_NET_VIF_MODEL_VIRTIO
55	COMPUTE_NET_VIF_MODEL_VMXNET
56	COMPUTE_NET_VIF_MODEL_VMXNET3
57	COMPUTE_NET_VIRTIO_PACKED
58	COMPUTE_NODE
59	COMPUTE_REMOTE_MANAGED_PORTS
60	COMPUTE_RESCUE_BFV
61	COMPUTE_SAME_HOST_COLD_MIGRATE
62	COMPUTE_SECURITY_STATELESS_FIRMWARE
63	COMPUTE_SECURITY_TPM_1_2
64	COMPUTE_SECURITY_TPM_2_0
65	COMPUTE_SECURITY_TPM_CRB
66	COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT
67	COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST
68	COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER
69	COMPUTE_SECURITY_TPM_TIS
70	COMPUTE_SECURITY_UEFI_SECURE_BOOT
71	COMPUTE_SHARE_LOCAL_FS
72	COMPUTE_SOCKET_PCI_NUMA_AFFINITY
73	COMPUTE_SOUND_MODEL_AC97
74	COMPUTE_SOUND_MODEL_ES1370
75	COMPUTE_SOUND_MODEL_ICH6
76	COMPUTE_SOUND_MODEL_ICH9
77	COMPUTE_SOUND_MODEL_PCSPK
78	COMPUTE_SOUND_MODEL_SB16
79	COMPUTE_SOUND_MODEL_USB
80	COMPUTE_SOUND_MODEL_VIRTIO
81	COMPUTE_STATUS_DISABLED
82	COMPUTE_STORAGE_BUS_FDC
83	COMPUTE_STORAGE_BUS_IDE
84	COMPUTE_STORAGE_BUS_LXC
85	COMPUTE_STORAGE_BUS_SATA
86	COMPUTE_STORAGE_BUS_SCSI
87	COMPUTE_STORAGE_BUS_UML
88	COMPUTE_STORAGE_BUS_USB
89	COMPUTE_STORAGE_BUS_VIRTIO
90	COMPUTE_STORAGE_BUS_XEN
91	COMPUTE_STORAGE_VIRTIO_FS
92	COMPUTE_TRUSTED_CERTS
93	COMPUTE_USB_MODEL_NEC_XHCI
94	COMPUTE_USB_MODEL_QEMU_XHCI
95	COMPUTE_VIOMMU_MODEL_AUTO
96	COMPUTE_VIOMMU_MODEL_INTEL
97	COMPUTE_VIOMMU_MODEL_SMMUV3
98	COMPUTE_VIOMMU_MODEL_VIRTIO
99	COMPUTE_VOLUME_ATTACH
100	COMPUTE_VOLUME_ATTACH_WITH_TAG
101	COMPUTE_VOLUME_EXTEND
102	COMPUTE_VOLUME_MULTI_ATTACH
103	HW_ARCH_AARCH64
104	HW_ARCH_ALPHA
105	HW_ARCH_ARMV6
106	HW_ARCH_ARMV7
107	HW_ARCH_ARMV7B
108	HW_ARCH_CRIS
109	HW_ARCH_I686
110	HW_ARCH_IA64
111	HW_ARCH_LM32
112	HW_ARCH_M68K
113	HW_ARCH_MICROBLAZE
114	HW_ARCH_MICROBLAZEEL
115	HW_ARCH_MIPS
116	HW_ARCH_MIPS64
117	HW_ARCH_MIPS64EL
118	HW_ARCH_MIPSEL
119	HW_ARCH_OPENRISC
120	HW_ARCH_PARISC
121	HW_ARCH_PARISC64
122	HW_ARCH_PPC
123	HW_ARCH_PPC64
124	HW_ARCH_PPC64LE
125	HW_ARCH_PPCEMB
126	HW_ARCH_PPCLE
127	HW_ARCH_S390
128	HW_ARCH_S390X
129	HW_ARCH_SH4
130	HW_ARCH_SH4EB
131	HW_ARCH_SPARC
132	HW_ARCH_SPARC64
133	HW_ARCH_UNICORE32
134	HW_ARCH_X86_64
135	HW_ARCH_XTENSA
136	HW_ARCH_XTENSAEB
137	HW_CPU_AARCH64_AES
138	HW_CPU_AARCH64_ASIMD
139	HW_CPU_AARCH64_ASIMDDP
140	HW_CPU_AARCH64_ASIMDHP
141	HW_CPU_AARCH64_ASIMDRDM
142	HW_CPU_AARCH64_ATOMICS
143	HW_CPU_AARCH64_CPUID
144	HW_CPU_AARCH64_CRC32
145	HW_CPU_AARCH64_DCPOP
146	HW_CPU_AARCH64_EVTSTRM
147	HW_CPU_AARCH64_FCMA
148	HW_CPU_AARCH64_FP
149	HW_CPU_AARCH64_FPHP
150	HW_CPU_AARCH64_JSCVT
151	HW_CPU_AARCH64_LRCPC
152	HW_CPU_AARCH64_PMULL
153	HW_CPU_AARCH64_SHA1
154	HW_CPU_AARCH64_SHA2
155	HW_CPU_AARCH64_SHA3
156	HW_CPU_AARCH64_SHA512
157	HW_CPU_AARCH64_SM3
158	HW_CPU_AARCH64_SM4
159	HW_CPU_AARCH64_SVE
160	HW_CPU_AMD_SEV
161	HW_CPU_HYPERTHREADING
162	HW_CPU_PPC64LE_POWER8
163	HW_CPU_PPC64LE_POWER9
164	HW_CPU_X86_3DNOW
165	HW_CPU_X86_ABM
166	HW_CPU_X86_AESNI
167	HW_CPU_X86_AMD_IBPB
168	HW_CPU_X86_AMD_NO_SSB
169	HW_CPU_X86_AMD_SEV
170	HW_CPU_X86_AMD_SEV_ES
171	HW_CPU_X86_AMD_SEV_SNP
172	HW_CPU_X86_AMD_SSBD
173	HW_CPU_X86_AMD_SVM
174	HW_CPU_X86_AMD_VIRT_SSBD
175	HW_CPU_X86_AMXBF16
176	HW_CPU_X86_AMXINT8
177	HW_CPU_X86_AMXTILE
178	HW_CPU_X86_ASF
179	HW_CPU_X86_AVX
180	HW_CPU_X86_AVX2
181	HW_CPU_X86_AVX512BITALG
182	HW_CPU_X86_AVX512BW
183	HW_CPU_X86_AVX512CD
184	HW_CPU_X86_AVX512DQ
185	HW_CPU_X86_AVX512ER
186	HW_CPU_X86_AVX512F
187	HW_CPU_X86_AVX512GFNI
188	HW_CPU_X86_AVX512IFMA
189	HW_CPU_X86_AVX512PF
190	HW_CPU_X86_AVX512VAES
191	HW_CPU_X86_AVX512VBMI
192	HW_CPU_X86_AVX512VBMI2
193	HW_CPU_X86_AVX512VL
194	HW_CPU_X86_AVX512VNNI
195	HW_CPU_X86_AVX512VPCLMULQDQ
196	HW_CPU_X86_AVX512VPOPCNTDQ
197	HW_CPU_X86_BMI
198	HW_CPU_X86_BMI2
199	HW_CPU_X86_CLMUL
200	HW_CPU_X86_F16C
201	HW_CPU_X86_FMA3
202	HW_CPU_X86_FMA4
203	HW_CPU_X86_INTEL_MD_CLEAR
204	HW_CPU_X86_INTEL_PCID
205	HW_CPU_X86_INTEL_SPEC_CTRL
206	HW_CPU_X86_INTEL_SSBD
207	HW_CPU_X86_INTEL_TDX
208	HW_CPU_X86_INTEL_VMX
209	HW_CPU_X86_MMX
210	HW_CPU_X86_MPX
211	HW_CPU_X86_PDPE1GB
212	HW_CPU_X86_SGX
213	HW_CPU_X86_SHA
214	HW_CPU_X86_SSE
215	HW_CPU_X86_SSE2
216	HW_CPU_X86_SSE3
217	HW_CPU_X86_SSE41
218	HW_CPU_X86_SSE42
219	HW_CPU_X86_SSE4A
220	HW_CPU_X86_SSSE3
221	HW_CPU_X86_STIBP
222	HW_CPU_X86_SVM
223	HW_CPU_X86_TBM
224	HW_CPU_X86_TSX
225	HW_CPU_X86_VMX
226	HW_CPU_X86_XOP
227	HW_GPU_API_DIRECT2D
228	HW_GPU_API_DIRECT3D_V10_0
229	HW_GPU_API_DIRECT3D_V10_1
230	HW_GPU_API_DIRECT3D_V11_0
231	HW_GPU_API_DIRECT3D_V11_1
232	HW_GPU_API_DIRECT3D_V11_2
233	HW_GPU_API_DIRECT3D_V11_3
234	HW_GPU_API_DIRECT3D_V12_0
235	HW_GPU_API_DIRECT3D_V6_0
236	HW_GPU_API_DIRECT3D_V7_0
237	HW_GPU_API_DIRECT3D_V8_0
238	HW_GPU_API_DIRECT3D_V8_1
239	HW_GPU_API_DIRECT3D_V9_0
240	HW_GPU_API_DIRECT3D_V9_0B
241	HW_GPU_API_DIRECT3D_V9_0C
242	HW_GPU_API_DIRECT3D_V9_0L
243	HW_GPU_API_DIRECTX_V10
244	HW_GPU_API_DIRECTX_V11
245	HW_GPU_API_DIRECTX_V12
246	HW_GPU_API_DXVA
247	HW_GPU_API_OPENCL_V1_0
248	HW_GPU_API_OPENCL_V1_1
249	HW_GPU_API_OPENCL_V1_2
250	HW_GPU_API_OPENCL_V2_0
251	HW_GPU_API_OPENCL_V2_1
252	HW_GPU_API_OPENCL_V2_2
253	HW_GPU_API_OPENGL_V1_1
254	HW_GPU_API_OPENGL_V1_2
255	HW_GPU_API_OPENGL_V1_3
256	HW_GPU_API_OPENGL_V1_4
257	HW_GPU_API_OPENGL_V1_5
258	HW_GPU_API_OPENGL_V2_0
259	HW_GPU_API_OPENGL_V2_1
260	HW_GPU_API_OPENGL_V3_0
261	HW_GPU_API_OPENGL_V3_1
262	HW_GPU_API_OPENGL_V3_2
263	HW_GPU_API_OPENGL_V3_3
264	HW_GPU_API_OPENGL_V4_0
265	HW_GPU_API_OPENGL_V4_1
266	HW_GPU_API_OPENGL_V4_2
267	HW_GPU_API_OPENGL_V4_3
268	HW_GPU_API_OPENGL_V4_4
269	HW_GPU_API_OPENGL_V4_5
270	HW_GPU_API_VULKAN
271	HW_GPU_CUDA_COMPUTE_CAPABILITY_V1_0
272	HW_GPU_CUDA_COMPUTE_CAPABILITY_V1_1
273	HW_GPU_CUDA_COMPUTE_CAPABILITY_V1_2
274	HW_GPU_CUDA_COMPUTE_CAPABILITY_V1_3
275	HW_GPU_CUDA_COMPUTE_CAPABILITY_V2_0
276	HW_GPU_CUDA_COMPUTE_CAPABILITY_V2_1
277	HW_GPU_CUDA_COMPUTE_CAPABILITY_V3_0
278	HW_GPU_CUDA_COMPUTE_CAPABILITY_V3_2
279	HW_GPU_CUDA_COMPUTE_CAPABILITY_V3_5
280	HW_GPU_CUDA_COMPUTE_CAPABILITY_V3_7
281	HW_GPU_CUDA_COMPUTE_CAPABILITY_V5_0
282	HW_GPU_CUDA_COMPUTE_CAPABILITY_V5_2
283	HW_GPU_CUDA_COMPUTE_CAPABILITY_V5_3
284	HW_GPU_CUDA_COMPUTE_CAPABILITY_V6_0
285	HW_GPU_CUDA_COMPUTE_CAPABILITY_V6_1
286	HW_GPU_CUDA_COMPUTE_CAPABILITY_V6_2
287	HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0
288	HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_1
289	HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_2
290	HW_GPU_CUDA_SDK_V10_0
291	HW_GPU_CUDA_SDK_V6_5
292	HW_GPU_CUDA_SDK_V7_5
293	HW_GPU_CUDA_SDK_V8_0
294	HW_GPU_CUDA_SDK_V9_0
295	HW_GPU_CUDA_SDK_V9_1
296	HW_GPU_CUDA_SDK_V9_2
297	HW_GPU_MAX_DISPLAY_HEADS_1
298	HW_GPU_MAX_DISPLAY_HEADS_2
299	HW_GPU_MAX_DISPLAY_HEADS_4
300	HW_GPU_MAX_DISPLAY_HEADS_6
301	HW_GPU_MAX_DISPLAY_HEADS_8
302	HW_GPU_RESOLUTION_W1024H600
303	HW_GPU_RESOLUTION_W1024H768
304	HW_GPU_RESOLUTION_W1152H864
305	HW_GPU_RESOLUTION_W1280H1024
306	HW_GPU_RESOLUTION_W1280H720
307	HW_GPU_RESOLUTION_W1280H768
308	HW_GPU_RESOLUTION_W1280H800
309	HW_GPU_RESOLUTION_W1360H768
310	HW_GPU_RESOLUTION_W1366H768
311	HW_GPU_RESOLUTION_W1440H900
312	HW_GPU_RESOLUTION_W1600H1200
313	HW_GPU_RESOLUTION_W1600H900
314	HW_GPU_RESOLUTION_W1680H1050
315	HW_GPU_RESOLUTION_W1920H1080
316	HW_GPU_RESOLUTION_W1920H1200
317	HW_GPU_RESOLUTION_W2560H1440
318	HW_GPU_RESOLUTION_W2560H1600
319	HW_GPU_RESOLUTION_W320H240
320	HW_GPU_RESOLUTION_W3840H2160
321	HW_GPU_RESOLUTION_W640H480
322	HW_GPU_RESOLUTION_W7680H4320
323	HW_GPU_RESOLUTION_W800H600
324	HW_NIC_ACCEL_DEFLATE
325	HW_NIC_ACCEL_DIFFIEH
326	HW_NIC_ACCEL_ECC
327	HW_NIC_ACCEL_IPSEC
328	HW_NIC_ACCEL_LZS
329	HW_NIC_ACCEL_RSA
330	HW_NIC_ACCEL_SSL
331	HW_NIC_ACCEL_TLS
332	HW_NIC_DCB_ETS
333	HW_NIC_DCB_PFC
334	HW_NIC_DCB_QCN
335	HW_NIC_MULTIQUEUE
336	HW_NIC_OFFLOAD_FDF
337	HW_NIC_OFFLOAD_GENEVE
338	HW_NIC_OFFLOAD_GRE
339	HW_NIC_OFFLOAD_GRO
340	HW_NIC_OFFLOAD_GSO
341	HW_NIC_OFFLOAD_L2CRC
342	HW_NIC_OFFLOAD_LRO
343	HW_NIC_OFFLOAD_LSO
344	HW_NIC_OFFLOAD_QINQ
345	HW_NIC_OFFLOAD_RDMA
346	HW_NIC_OFFLOAD_RX
347	HW_NIC_OFFLOAD_RXHASH
348	HW_NIC_OFFLOAD_RXVLAN
349	HW_NIC_OFFLOAD_SCS
350	HW_NIC_OFFLOAD_SG
351	HW_NIC_OFFLOAD_SWITCHDEV
352	HW_NIC_OFFLOAD_TCS
353	HW_NIC_OFFLOAD_TSO
354	HW_NIC_OFFLOAD_TX
355	HW_NIC_OFFLOAD_TXUDP
356	HW_NIC_OFFLOAD_TXVLAN
357	HW_NIC_OFFLOAD_UCS
358	HW_NIC_OFFLOAD_UFO
359	HW_NIC_OFFLOAD_VXLAN
360	HW_NIC_PROGRAMMABLE_PIPELINE
361	HW_NIC_SRIOV
362	HW_NIC_SRIOV_MULTIQUEUE
363	HW_NIC_SRIOV_QOS_RX
364	HW_NIC_SRIOV_QOS_TX
365	HW_NIC_SRIOV_TRUSTED
366	HW_NIC_VMDQ
367	HW_NUMA_ROOT
368	HW_NVME_BES
369	HW_NVME_CES
370	HW_NVME_WZS
371	HW_PCI_LIVE_MIGRATABLE
372	HW_PCI_ONE_TIME_USE
373	MISC_SHARES_VIA_AGGREGATE
374	OWNER_CYBORG
375	OWNER_NOVA
376	STORAGE_DISK_HDD
377	STORAGE_DISK_SSD
\.
SELECT pg_catalog.setval('compute.host_aggregate_id_seq', 10, true);
SELECT pg_catalog.setval('compute.server_sequence_seq', 12, true);
SELECT pg_catalog.setval('network.flat_ticket', 2, true);
SELECT pg_catalog.setval('network.intent_ticket_seq', 2, true);
SELECT pg_catalog.setval('network.notice_id_seq', 1, false);
SELECT pg_catalog.setval('network.release_id_seq', 1, false);
SELECT pg_catalog.setval('placement.provider_id_seq', 9, true);
SELECT pg_catalog.setval('placement.resource_class_id_seq', 63, true);
SELECT pg_catalog.setval('placement.trait_id_seq', 377, true);
ALTER TABLE ONLY compute.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY compute.flavor
    ADD CONSTRAINT flavor_name_key UNIQUE (name);
ALTER TABLE ONLY compute.flavor
    ADD CONSTRAINT flavor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY compute.guest
    ADD CONSTRAINT guest_pkey PRIMARY KEY (server_id, host);
ALTER TABLE ONLY compute.host_aggregate_host
    ADD CONSTRAINT host_aggregate_host_pkey PRIMARY KEY (aggregate_uuid, host);
ALTER TABLE ONLY compute.host_aggregate
    ADD CONSTRAINT host_aggregate_name_key UNIQUE (name);
ALTER TABLE ONLY compute.host_aggregate
    ADD CONSTRAINT host_aggregate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY compute.host_aggregate
    ADD CONSTRAINT host_aggregate_uuid_key UNIQUE (uuid);
ALTER TABLE ONLY compute.host
    ADD CONSTRAINT host_pkey PRIMARY KEY (name);
ALTER TABLE ONLY compute.host
    ADD CONSTRAINT host_provider_uuid_key UNIQUE (provider_uuid);
ALTER TABLE ONLY compute.server
    ADD CONSTRAINT server_pkey PRIMARY KEY (id);
ALTER TABLE ONLY compute.server
    ADD CONSTRAINT server_sequence_key UNIQUE (sequence);
ALTER TABLE ONLY compute.work
    ADD CONSTRAINT work_pkey PRIMARY KEY (server_id);
ALTER TABLE ONLY network.address
    ADD CONSTRAINT address_pkey PRIMARY KEY (subnet_id, address);
ALTER TABLE ONLY network.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY network.binding
    ADD CONSTRAINT binding_pkey PRIMARY KEY (port_id, host);
ALTER TABLE ONLY network.flat_address
    ADD CONSTRAINT flat_address_network_id_mac_address_key UNIQUE (network_id, mac_address);
ALTER TABLE ONLY network.flat_address
    ADD CONSTRAINT flat_address_pkey PRIMARY KEY (server_id, tag);
ALTER TABLE ONLY network.flat_address
    ADD CONSTRAINT flat_address_subnet_id_address_key UNIQUE (subnet_id, address);
ALTER TABLE ONLY network.free_range
    ADD CONSTRAINT free_range_pkey PRIMARY KEY (subnet_id, first_address);
ALTER TABLE ONLY network.host
    ADD CONSTRAINT host_pkey PRIMARY KEY (name);
ALTER TABLE ONLY network.intent
    ADD CONSTRAINT intent_pkey PRIMARY KEY (port_id);
ALTER TABLE ONLY network.network
    ADD CONSTRAINT network_pkey PRIMARY KEY (id);
ALTER TABLE ONLY network.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (id);
ALTER TABLE ONLY network.pool
    ADD CONSTRAINT pool_pkey PRIMARY KEY (subnet_id, first_address);
ALTER TABLE ONLY network.port
    ADD CONSTRAINT port_network_id_mac_address_key UNIQUE (network_id, mac_address);
ALTER TABLE ONLY network.port
    ADD CONSTRAINT port_pkey PRIMARY KEY (id);
ALTER TABLE ONLY network.publication
    ADD CONSTRAINT publication_pkey PRIMARY KEY (provider_uuid);
ALTER TABLE ONLY network.quota
    ADD CONSTRAINT quota_pkey PRIMARY KEY (project_id, resource);
ALTER TABLE ONLY network.release
    ADD CONSTRAINT release_pkey PRIMARY KEY (id);
ALTER TABLE ONLY network.segment
    ADD CONSTRAINT segment_pkey PRIMARY KEY (id);
ALTER TABLE ONLY network.subnet
    ADD CONSTRAINT subnet_pkey PRIMARY KEY (id);
ALTER TABLE ONLY placement.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY placement.allocation
    ADD CONSTRAINT allocation_pkey PRIMARY KEY (consumer_uuid, provider_id, resource_class_id);
ALTER TABLE ONLY placement.change_horizon
    ADD CONSTRAINT change_horizon_pkey PRIMARY KEY (single);
ALTER TABLE ONLY placement.consumer
    ADD CONSTRAINT consumer_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY placement.inventory
    ADD CONSTRAINT inventory_pkey PRIMARY KEY (provider_id, resource_class_id);
ALTER TABLE ONLY placement.provider_aggregate
    ADD CONSTRAINT provider_aggregate_pkey PRIMARY KEY (provider_id, aggregate_uuid);
ALTER TABLE ONLY placement.provider
    ADD CONSTRAINT provider_name_key UNIQUE (name);
ALTER TABLE ONLY placement.provider
    ADD CONSTRAINT provider_pkey PRIMARY KEY (id);
ALTER TABLE ONLY placement.provider_trait
    ADD CONSTRAINT provider_trait_pkey PRIMARY KEY (provider_id, trait_id);
ALTER TABLE ONLY placement.provider
    ADD CONSTRAINT provider_uuid_key UNIQUE (uuid);
ALTER TABLE ONLY placement.resource_class
    ADD CONSTRAINT resource_class_name_key UNIQUE (name);
ALTER TABLE ONLY placement.resource_class
    ADD CONSTRAINT resource_class_pkey PRIMARY KEY (id);
ALTER TABLE ONLY placement.trait
    ADD CONSTRAINT trait_name_key UNIQUE (name);
ALTER TABLE ONLY placement.trait
    ADD CONSTRAINT trait_pkey PRIMARY KEY (id);
CREATE INDEX guest_host ON compute.guest USING btree (host);
CREATE INDEX guest_host_pending ON compute.guest USING btree (host) WHERE (reported IS DISTINCT FROM desired);
CREATE INDEX host_aggregate_host_host ON compute.host_aggregate_host USING btree (host);
CREATE INDEX server_host ON compute.server USING btree (host);
CREATE INDEX work_run_at ON compute.work USING btree (run_at);
CREATE INDEX address_address ON network.address USING btree (address);
CREATE INDEX address_port ON network.address USING btree (port_id);
CREATE INDEX notice_server ON network.notice USING btree (server_id);
CREATE INDEX port_device ON network.port USING btree (device_id) WHERE (device_id <> ''::text);
CREATE INDEX port_project ON network.port USING btree (project_id);
CREATE INDEX release_port ON network.release USING btree (port_id);
CREATE INDEX segment_network ON network.segment USING btree (network_id);
CREATE INDEX segment_physical_network ON network.segment USING btree (physical_network);
CREATE INDEX subnet_changing ON network.subnet USING btree (id) WHERE ((change IS NOT NULL) OR deleting);
CREATE INDEX subnet_network ON network.subnet USING btree (network_id);
CREATE INDEX subnet_segment ON network.subnet USING btree (segment_id);
CREATE INDEX allocation_provider ON placement.allocation USING btree (provider_id);
CREATE INDEX change_xid ON placement.change USING btree (xid);
CREATE INDEX consumer_project ON placement.consumer USING btree (project_id, user_id);
CREATE INDEX provider_aggregate_aggregate ON placement.provider_aggregate USING btree (aggregate_uuid);
CREATE INDEX provider_parent ON placement.provider USING btree (parent_id);
CREATE INDEX provider_root ON placement.provider USING btree (root_id);
CREATE INDEX provider_trait_trait ON placement.provider_trait USING btree (trait_id);
ALTER TABLE ONLY compute.host_aggregate_host
    ADD CONSTRAINT host_aggregate_host_aggregate_uuid_fkey FOREIGN KEY (aggregate_uuid) REFERENCES compute.host_aggregate(uuid) ON DELETE CASCADE;
ALTER TABLE ONLY network.binding
    ADD CONSTRAINT binding_port_id_fkey FOREIGN KEY (port_id) REFERENCES network.port(id) ON DELETE CASCADE;
ALTER TABLE ONLY network.free_range
    ADD CONSTRAINT free_range_subnet_id_fkey FOREIGN KEY (subnet_id) REFERENCES network.subnet(id) ON DELETE CASCADE;
ALTER TABLE ONLY network.pool
    ADD CONSTRAINT pool_subnet_id_fkey FOREIGN KEY (subnet_id) REFERENCES network.subnet(id) ON DELETE CASCADE;
ALTER TABLE ONLY network.segment
    ADD CONSTRAINT segment_network_id_fkey FOREIGN KEY (network_id) REFERENCES network.network(id);
ALTER TABLE ONLY network.subnet
    ADD CONSTRAINT subnet_network_id_fkey FOREIGN KEY (network_id) REFERENCES network.network(id);
ALTER TABLE ONLY network.subnet
    ADD CONSTRAINT subnet_segment_id_fkey FOREIGN KEY (segment_id) REFERENCES network.segment(id);
ALTER TABLE ONLY placement.provider
    ADD CONSTRAINT provider_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES placement.provider(id);
