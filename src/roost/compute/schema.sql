-- Flavors, hosts, host aggregates, servers, guests, the work rows of the pipeline, and agents' tokens.
--
-- A new database is made from this file. The migrations beside it bring older ones to the same, which
-- tests/platform/test_schemas.py holds.

CREATE TABLE compute.flavor (
    id text PRIMARY KEY,
    name text NOT NULL UNIQUE,
    vcpus integer NOT NULL,
    ram_mb integer NOT NULL,
    disk_gb integer NOT NULL,
    description text,
    extra_specs jsonb NOT NULL DEFAULT '{}',
    is_public boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE compute.host (
    name text PRIMARY KEY,
    provider_uuid uuid NOT NULL UNIQUE,
    vcpus integer NOT NULL,
    ram_mb integer NOT NULL,
    disk_gb integer NOT NULL,
    physical_networks text[] NOT NULL,
    -- Declared by a cloud file: an agent's own report then changes neither capacity nor physical networks.
    declared boolean NOT NULL DEFAULT false,
    -- Which state the provider, the inventories and the aggregates must have, and which they have been given.
    wanted bigint NOT NULL DEFAULT 1,
    published bigint NOT NULL DEFAULT 0,
    disabled boolean NOT NULL DEFAULT false,
    forced_down boolean NOT NULL DEFAULT false,
    service_version integer NOT NULL DEFAULT 0,
    seen_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    cell text NOT NULL DEFAULT 'cell1',
    -- The agent that holds the lease on the host; the lease runs out when the host was not heard of for too long.
    agent_id uuid,
    agent_label text NOT NULL DEFAULT '',
    agent_since timestamptz,
    -- Not heard of for too long, or never: the ledger is to keep servers from it. Cleared by the host's next poll.
    silent boolean NOT NULL DEFAULT true,
    -- For clients below microversion 2.53.
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    disabled_reason text,
    -- Whether the ledger was last told that the host is down.
    down_told boolean NOT NULL DEFAULT true,
    -- No conductor of its cell is alive: the ledger is to keep servers from it.
    cell_silent boolean NOT NULL DEFAULT false,
    -- The host's guests have their NICs down so long after the agent's last lease ended, whatever becomes of the agent.
    fence_after_s double precision,
    -- seen_at, when that was said with it; a release that does not know of it changes seen_at alone.
    promised_at timestamptz,
    -- The agent, for the guests that it has.
    promised_by uuid,
    -- So long has passed while somebody listened.
    promise_kept boolean NOT NULL DEFAULT false,
    -- When all guests of the host were last listed while the records are recovering.
    listed_at timestamptz,
    -- Its agent is of a lower service version than [compute] service_version_min: the ledger is to keep servers from it.
    too_old boolean NOT NULL DEFAULT false,
    -- Registered by an agent with a token; nobody declared it, and no operator has accepted it. Such a host is disabled.
    waiting boolean NOT NULL DEFAULT false,
    -- Launches that the host did not begin, one after another, though its agent polled.
    unbegun integer NOT NULL DEFAULT 0,
    -- When the last of them was given up.
    unbegun_at timestamptz,
    -- Closed for that: the ledger is to keep servers from it.
    idle boolean NOT NULL DEFAULT false,
    -- When it is, or was, opened for one launch, and how long after it was closed; 0 for a host that was not.
    probe_at timestamptz,
    probe_after_s double precision NOT NULL DEFAULT 0,
    -- [compute] host_down_after_s of who gave the lease last; null where only the release before has: today's.
    lease_length_s double precision,
    -- Its guests have their root disks there, as its agent says.
    keeps_disks boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX host_promising ON compute.host (name) WHERE fence_after_s IS NOT NULL;
CREATE INDEX host_heard ON compute.host (agent_id) WHERE NOT silent;
CREATE INDEX host_silent ON compute.host (name) WHERE silent;
CREATE INDEX host_waiting ON compute.host (name) WHERE waiting;
CREATE INDEX host_unbegun ON compute.host (name) WHERE unbegun > 0;

-- Agents, each with a row as soon as it holds a host.
CREATE TABLE compute.agent (
    id uuid PRIMARY KEY,
    label text NOT NULL DEFAULT '',
    service_version integer NOT NULL DEFAULT 0,
    -- Of the newest start, null for an agent that says none; and when it was first heard.
    boot_id uuid,
    boot_since timestamptz NOT NULL DEFAULT now(),
    -- When the newest start last spoke since an older one did.
    boot_at timestamptz,
    -- Of the starts before, the latest first.
    former_boots uuid[] NOT NULL DEFAULT '{}',
    -- Which of those last spoke although the newest had come, and when.
    former_boot_id uuid,
    former_label text NOT NULL DEFAULT '',
    former_at timestamptz,
    -- Null until it brings one, and required from then on.
    secret_sha256 bytea,
    -- When it last held all hosts of hosts_digest.
    seen_at timestamptz,
    -- Of the hosts that it holds, if it holds all that it asked for, and no others, and none is silent.
    hosts_digest bytea,
    -- Moves with every commit that the agent can see.
    mark bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Counts the changes of which hosts are declared.
CREATE TABLE compute.declared_hosts (changes bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO compute.declared_hosts (changes) VALUES (1);
CREATE FUNCTION compute.note_hosts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids uuid[];
    declares boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        -- Sets, not joins: a join would go by the sizes of the first statement that came here.
        SELECT array_agg(DISTINCT agent_id ORDER BY agent_id) FILTER (WHERE agent_id IS NOT NULL) INTO ids FROM (
            (SELECT name, agent_id, silent FROM former EXCEPT SELECT name, agent_id, silent FROM present)
            UNION ALL (SELECT name, agent_id, silent FROM present EXCEPT SELECT name, agent_id, silent FROM former)
        ) AS changed;
        declares := EXISTS ((SELECT name, declared FROM former EXCEPT SELECT name, declared FROM present));
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(DISTINCT agent_id ORDER BY agent_id) INTO ids FROM former WHERE agent_id IS NOT NULL;
        declares := EXISTS (SELECT FROM former WHERE declared);
    ELSE
        declares := EXISTS (SELECT FROM present WHERE declared);
    END IF;
    IF ids IS NOT NULL THEN
        INSERT INTO compute.agent (id) SELECT unnest(ids) ON CONFLICT DO NOTHING;
        -- Locked also without a digest: who writes one now has not seen this change.
        PERFORM FROM compute.agent WHERE id = ANY(ids) ORDER BY id FOR NO KEY UPDATE;
        UPDATE compute.agent SET hosts_digest = NULL WHERE id = ANY(ids) AND hosts_digest IS NOT NULL;
    END IF;
    IF declares THEN
        UPDATE compute.declared_hosts SET changes = changes + 1;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER host_updated AFTER UPDATE ON compute.host REFERENCING OLD TABLE AS former NEW TABLE AS present
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();
CREATE TRIGGER host_deleted AFTER DELETE ON compute.host REFERENCING OLD TABLE AS former
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();
CREATE TRIGGER host_inserted AFTER INSERT ON compute.host REFERENCING NEW TABLE AS present
    FOR EACH STATEMENT EXECUTE FUNCTION compute.note_hosts();

-- Makes the codes of marks, which prove that the records went back in time.
CREATE TABLE compute.mark_key (key bytea NOT NULL);
INSERT INTO compute.mark_key (key)
VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));
-- Which database the records were in: its timeline and its number in the cluster.
CREATE TABLE compute.database_seen (fingerprint text NOT NULL);
INSERT INTO compute.database_seen (fingerprint) VALUES ('');
-- Times in which the records went back, or may have, and followed what the hosts said.
CREATE TABLE compute.recovery (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    noticed_at timestamptz NOT NULL DEFAULT now(),
    -- Whose mark proved it; null where only the database is another one.
    agent_id uuid,
    agent_label text NOT NULL DEFAULT '',
    -- What proved it, and the agent's own mark in the records.
    mark_told bigint,
    mark_known bigint,
    -- Attempts that are drawn since are above it.
    epoch integer NOT NULL,
    -- Every host that is alive has listed its guests since, or an operator said that it is enough.
    ended_at timestamptz,
    ended_by text
);
CREATE UNIQUE INDEX recovery_open ON compute.recovery ((true)) WHERE ended_at IS NULL;

CREATE TABLE compute.conductor_heartbeat (
    id uuid PRIMARY KEY,
    -- Empty: all.
    cells text[] NOT NULL,
    -- Of the network service, as this conductor found them last: roost.compute.model.work.Credentials.
    credentials jsonb NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE compute.host_aggregate (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid uuid NOT NULL UNIQUE,
    name text NOT NULL UNIQUE,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Whether an operator keeps its members; else the network service does, for a segment.
    of_operator boolean NOT NULL DEFAULT false
);

-- Operators' aggregates that were deleted: a provider that is still in one was not told.
CREATE TABLE compute.former_aggregate (
    uuid uuid PRIMARY KEY,
    name text NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE compute.host_aggregate_host (
    aggregate_uuid uuid NOT NULL REFERENCES compute.host_aggregate (uuid) ON DELETE CASCADE,
    host text NOT NULL,
    PRIMARY KEY (aggregate_uuid, host)
);
CREATE INDEX host_aggregate_host_host ON compute.host_aggregate_host (host);

CREATE TABLE compute.server (
    id uuid PRIMARY KEY,
    -- The order of creation, for stable paging.
    sequence bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    name text NOT NULL,
    project_id text NOT NULL,
    user_id text NOT NULL,
    flavor jsonb NOT NULL,
    image_ref text NOT NULL DEFAULT '',
    metadata jsonb NOT NULL DEFAULT '{}',
    description text,
    -- Which request made it, and as which of that request's servers.
    reservation_id text NOT NULL DEFAULT '',
    launch_index integer NOT NULL DEFAULT 0,
    -- The request spec: what the server asked for, kept for every later move. roost.seams.compute.RequestSpec.
    spec jsonb NOT NULL,
    -- The ports as last bound: roost.seams.compute.ServerPort, with preserve_on_delete.
    network_info jsonb NOT NULL DEFAULT '[]',
    status text NOT NULL DEFAULT 'BUILD',
    task_state text,
    host text,
    fault jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    launched_at timestamptz,
    -- Gone for every client; the row stays until its work is done.
    deleted_at timestamptz,
    -- The state of the guest as last reported, once the server has one: running, stopped, paused or suspended.
    power text NOT NULL DEFAULT 'running',
    -- Of the request that made it.
    request_id text NOT NULL DEFAULT '',
    locked boolean NOT NULL DEFAULT false,
    locked_reason text,
    tags text[] NOT NULL DEFAULT '{}',
    -- As it calls itself; null for those that are older than the column: their names.
    hostname text,
    -- How it is built: roost.compute.model.work.BuildOrder; null until a conductor has chosen it.
    build_order jsonb,
    -- As the host said it last, where it does not follow from the state: shutdown or crashed.
    power_state text,
    -- As the caller of the request that made it named that; null where it did not.
    global_request_id text,
    -- It was stopped to be shelved where its disk is; counts while `power` is stopped.
    shelved boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX server_host ON compute.server (host);
-- What a project has is counted for its quotas.
CREATE INDEX server_project ON compute.server (project_id);

CREATE TABLE compute.quota (
    -- Empty: of all projects that have none of their own.
    project_id text NOT NULL,
    resource text NOT NULL,
    maximum bigint NOT NULL,
    PRIMARY KEY (project_id, resource)
);

-- Servers that are gone: roost.compute.model.server.Server as it was last shown, kept with their actions and moves.
CREATE TABLE compute.deleted_server (
    id uuid PRIMARY KEY,
    document jsonb NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX deleted_server_at ON compute.deleted_server (deleted_at);
-- For what a project used.
CREATE INDEX deleted_server_project ON compute.deleted_server ((document ->> 'project_id'), deleted_at);

CREATE TABLE compute.work (
    server_id uuid PRIMARY KEY,
    stage text NOT NULL,
    -- The fence: desired state and reports carry it, a lower one changes nothing.
    attempt integer NOT NULL DEFAULT 0,
    -- How many launches the agents reported failed, and binds were refused.
    failures integer NOT NULL DEFAULT 0,
    excluded_hosts text[] NOT NULL DEFAULT '{}',
    -- What the next stage needs of the one before: roost.compute.model.work.Placed, Failure.
    placed jsonb,
    failure jsonb,
    -- Asked for while a conductor had the row: whoever has it goes to the delete stage next.
    deleting boolean NOT NULL DEFAULT false,
    lease_owner uuid,
    lease_until timestamptz,
    run_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Why the build must end, found out while a conductor had the row: whoever has it goes to the fail stage. A Failure.
    must_fail jsonb,
    -- Of the server: projects have their turns. In the order of bytes, as a conductor compares them.
    project_id text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE INDEX work_turn ON compute.work (project_id, run_at);

-- What a host should run and what it says it runs; an agent is asked for the rows where the two differ.
CREATE TABLE compute.guest (
    server_id uuid NOT NULL,
    host text NOT NULL,
    attempt integer NOT NULL,
    -- incoming: it takes over the memory of the guest on the server's source, with its NICs down.
    desired text NOT NULL CHECK (desired IN ('running', 'stopped', 'paused', 'suspended', 'incoming', 'absent')),
    begun_at timestamptz,
    -- Null until the agent says.
    reported text
        CHECK (reported IN ('running', 'stopped', 'paused', 'suspended', 'incoming', 'failed', 'absent')),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Who began the guest, or has it in its list; only that agent can say that it is gone.
    agent_id uuid,
    running_at timestamptz,
    -- It was running, and its host has not got it any more.
    lost_at timestamptz,
    -- Its host was forced down while it may have had the guest: nothing waits for it, the host destroys it when it is back.
    -- For the release before, which writes and reads it instead of fenced_by.
    fenced boolean NOT NULL DEFAULT false,
    -- A guest that takes over another's memory does so now, at the price of a longer pause.
    hurry boolean NOT NULL DEFAULT false,
    -- Why nothing waits for it any more; its host destroys it before it makes another. order: the host was forced down.
    -- promise: the host's agent had promised that its NICs are down by then. stopped: the host fell silent when its NICs
    -- were down.
    fenced_by text,
    -- Of the driver's, of the state that counted last.
    sequence bigint NOT NULL DEFAULT 0,
    -- Of one that takes over another's memory, where it awaits it: roost.seams.guests.MemorySource.
    meeting jsonb,
    -- How often its server's ports have changed, and as of which of these its host has said what it has.
    nics_version integer NOT NULL DEFAULT 0,
    nics_reported integer NOT NULL DEFAULT 0,
    PRIMARY KEY (server_id, host)
) WITH (fillfactor = 50);
CREATE INDEX guest_host_open ON compute.guest (host)
    WHERE reported IS DISTINCT FROM desired OR nics_reported <> nics_version;
CREATE INDEX guest_host ON compute.guest (host);
CREATE INDEX guest_agent ON compute.guest (agent_id, host);
-- A host with fenced guests makes no other before they are gone.
CREATE INDEX guest_fenced ON compute.guest (host) WHERE fenced;
CREATE INDEX guest_fenced_by ON compute.guest (host) WHERE fenced_by IS NOT NULL;
CREATE FUNCTION compute.keep_fenced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.fenced_by := CASE WHEN NEW.fenced_by IS DISTINCT FROM OLD.fenced_by THEN NEW.fenced_by
        WHEN NEW.fenced THEN 'order' END; NEW.fenced := NEW.fenced_by IS NOT NULL; RETURN NEW; END
$$;
CREATE TRIGGER guest_fenced BEFORE UPDATE ON compute.guest FOR EACH ROW
    WHEN (OLD.fenced IS DISTINCT FROM NEW.fenced OR OLD.fenced_by IS DISTINCT FROM NEW.fenced_by)
    EXECUTE FUNCTION compute.keep_fenced();

-- Tokens by which agents authenticate, each as its hash, with the hosts that it is for: names and shell-style patterns.
CREATE TABLE compute.agent_token (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    token_sha256 bytea NOT NULL UNIQUE,
    name text NOT NULL,
    hosts text[] NOT NULL CHECK (cardinality(hosts) > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_on date,
    revoked_at timestamptz
);

-- Guests that agents list and that this database does not know, or knows an older attempt of: a person decides.
CREATE TABLE compute.unknown_guest (
    host text NOT NULL,
    server_id uuid NOT NULL,
    attempt integer NOT NULL,
    listed_at timestamptz NOT NULL DEFAULT now(),
    -- roost.seams.agent.ListedGuest as its agent listed it last.
    listed jsonb,
    PRIMARY KEY (host, server_id)
);

-- A server on its way from one state or host to another. open: until all that it held is given back.
CREATE TABLE compute.move (
    -- The consumer that holds what the server had on its source.
    uuid uuid PRIMARY KEY,
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    server_id uuid NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    source_host text,
    dest_host text,
    project_id text NOT NULL,
    user_id text NOT NULL,
    -- What the stages need of it: roost.compute.model.work.Plan.
    plan jsonb NOT NULL,
    open boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX move_open ON compute.move (server_id) WHERE open;
CREATE INDEX move_server ON compute.move (server_id);
-- What was asked of a server, but for its creation, and how each stage of it went: roost.compute.model.server.ActionEvent.
CREATE TABLE compute.action (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    server_id uuid NOT NULL,
    request_id text NOT NULL,
    name text NOT NULL,
    project_id text NOT NULL,
    user_id text NOT NULL,
    message text,
    events jsonb NOT NULL DEFAULT '[]',
    started_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    global_request_id text
);
CREATE INDEX action_server ON compute.action (server_id, id);

-- Notifications that a destination has not taken yet, by destination. roost.platform.outbox.Notification.
CREATE TABLE compute.outbox (
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
CREATE INDEX outbox_refused ON compute.outbox (destination, subject) WHERE due_at IS NOT NULL;
-- Who delivers to a destination now; since when it takes nothing, and why.
CREATE TABLE compute.outbox_destination (
    name text PRIMARY KEY,
    lease_owner uuid,
    lease_until timestamptz,
    failures integer NOT NULL DEFAULT 0,
    reason text,
    due_at timestamptz
);

-- What happened to servers and hosts, for operators: roost.platform.events.Event.
CREATE TABLE compute.event (
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
CREATE INDEX event_at ON compute.event (at, id);
CREATE INDEX event_subjects ON compute.event USING gin (subjects jsonb_path_ops);
