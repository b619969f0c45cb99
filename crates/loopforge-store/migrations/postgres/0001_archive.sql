-- The archive of runs, as migrations/sqlite/0001_archive.sql has it.
--
-- Times are microseconds since 1970-01-01, UTC, by this server's clock where leases are concerned. Hashes are BLAKE3, 32
-- bytes. For statistics of your own use the views at the end: they stay as they are, while tables may change.
--
-- PostgreSQL's texts can't hold a NUL. Where one got into a text, it stands as U+0001 and `0`, and U+0001 itself as U+0001
-- and `1`.

-- The changes that were made to these tables, each with the hash of its file: one that differs is refused.
create table migration (
    number integer primary key,
    name text not null,
    hash bytea not null
);

comment on table migration is 'LoopForge archive';

-- The time of this server, which leases go by.
create function now_us() returns bigint language sql volatile
    return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- An instant as the views show it.
create function instant(us bigint) returns text language sql stable
    return to_char(to_timestamp(us / 1000000.0) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- Processes that work on runs. A heartbeat is one row for all runs of a worker; no index is on what it changes.
create table worker (
    id text collate "C" primary key,
    label text not null,
    -- Until then none of its leases lapses.
    until bigint not null
) with (fillfactor = 50);

-- The text of a task, byte for byte, once for all runs of it. `codec` 1: compressed by zstd.
create table task (
    hash bytea primary key check (octet_length(hash) = 32),
    size bigint not null,
    codec smallint not null check (codec in (0, 1)),
    content bytea not null
);

-- One execution of a task. `key` is its short name inside this database.
create table run (
    key bigint generated always as identity primary key,
    id uuid not null unique,
    name text not null,
    task bytea not null,
    workspace text not null,
    base text not null,
    status text not null
        check (status in ('queued', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'cancelled')),
    -- The last record. An append names the head that it follows, so two owners can't both go on from it.
    head_seq bigint not null,
    steps bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    wake_at bigint,
    -- From when on a worker may claim it; null while it is leased, and while it waits for nobody's clock. Never earlier than
    -- the moment in which it was set, so that a claim needn't look behind the place that it has seen.
    ready_at bigint,
    -- The lease: both numbers stand in every append. The id is drawn by the claimer, since an epoch can be issued
    -- twice. It is null when the lease was given up.
    lease_epoch bigint not null default 0,
    lease_id uuid,
    lease_until bigint,
    worker_id text collate "C",
    worker_label text
) with (fillfactor = 70);

-- For lists, the newest first.
create index run_by_age on run (created_at, id);
-- For claims. Appends and renewals change nothing that an index covers.
create index run_by_readiness on run (ready_at, key) where ready_at is not null;
-- For taking the runs of dead workers back.
create index run_by_worker on run (worker_id) where lease_id is not null;

-- The kinds of records, for reading `record.kind`.
create table kind (
    number smallint primary key,
    name text not null unique
);

insert into kind (number, name) values
    (1, 'run_started'), (2, 'run_resumed'), (3, 'subgoal_started'), (4, 'subgoal_ended'), (5, 'step_started'),
    (6, 'action_decided'), (7, 'action_refused'), (8, 'action_started'), (9, 'attempt_failed'), (10, 'action_finished'),
    (11, 'action_unknown'), (12, 'action_not_happened'), (13, 'state_saved'), (14, 'wait_started'), (15, 'wait_ended'),
    (16, 'question_asked'), (17, 'question_answered'), (18, 'lifecycle_moved'), (19, 'lifecycle_refused'),
    (20, 'loop_found'), (21, 'step_evaluated'), (22, 'limit_reached'), (23, 'limits_raised'), (24, 'run_paused'),
    (25, 'run_ended'), (26, 'hook_sent');

-- The records. Only ever added to.
create table record (
    run bigint not null,
    seq bigint not null,
    -- Made by the writer, so that it knows its own record again when an acknowledgement was lost.
    id uuid not null,
    at bigint not null,
    step bigint,
    action bigint,
    -- The item of a subgoal's list.
    item bigint,
    took_us bigint,
    format smallint not null,
    kind smallint not null,
    -- What people ask for stands in columns. Long texts among it are not in `body` too; they are put back on reading.
    -- The tool of an action, the subgoal of a step.
    name text,
    -- The code of an outcome, the route of a verdict, the outcome of a subgoal or a run.
    word text,
    -- An error, or a reason.
    note text,
    -- As in SQLite. 4 bytes: the first of the BLAKE3 of all that the row says but for `run`. 1 byte: how the rest is
    -- written. 0: JSON; 1: zstd with the dictionary of number 1, without zstd's 4 magic bytes.
    body bytea not null,
    primary key (run, seq)
);

create index record_by_step on record (run, step) where step is not null;

-- Which record holds which version of a state value. The value itself stands in the record.
create table state (
    run bigint not null,
    key text collate "C" not null,
    seq bigint not null,
    -- The member of the map under the key; null for a single value, which replaces the key as a whole.
    member text collate "C",
    -- A key can be longer than what an index entry holds, so its hash stands for it.
    primary key (run, seq)
);

create index state_by_key on state (run, md5(key), seq);

-- What a run did, or may have done, to the world outside.
create table effect (
    run bigint not null,
    step bigint not null,
    action bigint not null,
    -- The idempotency key.
    token text collate "C" not null,
    business_key text collate "C",
    -- Whether it holds its business key. Not by `state` alone: an answer can come after another action took the free
    -- key.
    holds_key boolean not null,
    state text not null check (state in ('started', 'confirmed', 'failed', 'unknown', 'not_happened')),
    attempts bigint not null,
    -- The records that tell when it was started, and its first outcome.
    started_seq bigint not null,
    outcome_seq bigint,
    -- Whether that outcome left the effect unknown: then a later one takes its place.
    outcome_open boolean not null,
    primary key (run, step, action)
);

create unique index effect_by_token on effect (md5(token));
create unique index effect_by_business_key on effect (run, md5(business_key)) where holds_key;

-- Content that records refer to, once for all runs. `codec` 1: compressed by zstd.
create table blob (
    hash bytea primary key check (octet_length(hash) = 32),
    size bigint not null,
    codec smallint not null check (codec in (0, 1)),
    content bytea not null
);

-- Shortcuts for loading a run: never the only copy of anything. `hash` is that of the bytes before compression.
create table checkpoint (
    run bigint not null,
    seq bigint not null,
    at bigint not null,
    hash bytea not null,
    size bigint not null,
    codec smallint not null check (codec in (0, 1)),
    content bytea not null,
    primary key (run, seq)
);

-- What is compressed already isn't compressed again.
alter table task alter column content set storage external;
alter table blob alter column content set storage external;
alter table checkpoint alter column content set storage external;
alter table record alter column body set storage external;

-- A row for each run.
create view task_runs as
select
    'run_' || replace(run.id::text, '-', '') as run_id,
    run.name as task,
    encode(run.task, 'hex') as task_hash,
    run.status,
    run.steps,
    run.head_seq as records,
    instant(run.created_at) as created_at,
    instant(run.updated_at) as updated_at,
    instant(run.wake_at) as wake_at,
    case when run.lease_id is not null and greatest(run.lease_until, worker.until) > now_us() then run.worker_label end as owner,
    run.workspace
from run
left join worker on worker.id = run.worker_id;

-- A row for each step. Tool, code and error are those of its last action.
create view task_steps as
with step as (
    select
        run,
        step,
        min(seq) as first,
        max(seq) filter (where kind = 5) as started,
        max(seq) filter (where kind = 6) as decided,
        max(seq) filter (where kind in (7, 10)) as ended,
        max(seq) filter (where kind = 21) as evaluated
    from record
    where step is not null
    group by run, step
)
select
    'run_' || replace(run.id::text, '-', '') as run_id,
    run.name as task,
    step.step,
    started.name as subgoal,
    started.item,
    decided.name as tool,
    ended.word as code,
    ended.took_us / 1000.0 as call_ms,
    ended.note as error,
    evaluated.word as route,
    evaluated.note as reason,
    instant(first.at) as started_at,
    instant(evaluated.at) as ended_at,
    (evaluated.at - first.at) / 1000.0 as duration_ms
from step
join run on run.key = step.run
join record as first on first.run = step.run and first.seq = step.first
left join record as started on started.run = step.run and started.seq = step.started
left join record as decided on decided.run = step.run and decided.seq = step.decided
left join record as ended on ended.run = step.run and ended.seq = step.ended
left join record as evaluated on evaluated.run = step.run and evaluated.seq = step.evaluated;

-- A row for each call that was refused or came to an end.
create view step_results as
with decided as (
    select run, step, action, name from record where kind = 6
)
select
    'run_' || replace(run.id::text, '-', '') as run_id,
    run.name as task,
    ended.step,
    ended.action,
    decided.name as tool,
    kind.name as event,
    ended.word as code,
    ended.took_us / 1000.0 as call_ms,
    ended.note as error,
    instant(ended.at) as ended_at
from record as ended
join run on run.key = ended.run
join kind on kind.number = ended.kind
left join decided on decided.run = ended.run and decided.step = ended.step and decided.action = ended.action
where ended.kind in (7, 10);
