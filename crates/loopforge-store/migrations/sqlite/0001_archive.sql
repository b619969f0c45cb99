-- The archive of runs.
--
-- Times are microseconds since 1970-01-01, UTC. Ids are the 16 bytes of a UUID; their text forms (`run_...`) stand in
-- the views. Hashes are BLAKE3, 32 bytes. For statistics of your own use the views at the end: they stay as they are,
-- while tables may change.

-- The changes that were made to this database, each with the hash of its file: one that differs is refused.
create table migration (
    number integer primary key,
    name text not null,
    hash blob not null
) strict;

-- The text of a task, byte for byte, once for all runs of it. `codec` 1: compressed by zstd.
create table task (
    hash blob primary key check (length(hash) = 32),
    size integer not null,
    codec integer not null check (codec in (0, 1)),
    content blob not null
) strict;

-- One execution of a task. `key` is its short name inside this database.
create table run (
    key integer primary key,
    id blob not null unique check (length(id) = 16),
    name text not null,
    task blob not null,
    workspace text not null,
    base text not null,
    status text not null
        check (status in ('queued', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'cancelled')),
    -- The last record. An append names the head that it follows, so two owners can't both go on from it.
    head_seq integer not null,
    steps integer not null,
    created_at integer not null,
    updated_at integer not null,
    wake_at integer,
    -- The lease: both numbers stand in every append. The id is drawn by the claimer, since an epoch can be issued
    -- twice. It is null when the lease was given up.
    lease_epoch integer not null default 0,
    lease_id blob check (length(lease_id) = 16),
    lease_until integer,
    worker_id text,
    worker_label text
) strict;

-- For lists, the newest first.
create index run_by_age on run (created_at, id);

-- The kinds of records, for reading `record.kind`.
create table kind (
    number integer primary key,
    name text not null unique
) strict;

insert into kind (number, name) values
    (1, 'run_started'), (2, 'run_resumed'), (3, 'subgoal_started'), (4, 'subgoal_ended'), (5, 'step_started'),
    (6, 'action_decided'), (7, 'action_refused'), (8, 'action_started'), (9, 'attempt_failed'), (10, 'action_finished'),
    (11, 'action_unknown'), (12, 'action_not_happened'), (13, 'state_saved'), (14, 'wait_started'), (15, 'wait_ended'),
    (16, 'question_asked'), (17, 'question_answered'), (18, 'lifecycle_moved'), (19, 'lifecycle_refused'),
    (20, 'loop_found'), (21, 'step_evaluated'), (22, 'limit_reached'), (23, 'limits_raised'), (24, 'run_paused'),
    (25, 'run_ended'), (26, 'hook_sent');

-- The records. Only ever added to.
--
-- `place` grows by one with each row, whichever run it is of: so rows fill pages to the brim, which rows in the order
-- of (run, seq) don't while several runs grow at once.
create table record (
    place integer primary key,
    run integer not null,
    seq integer not null,
    -- Made by the writer, so that it knows its own record again when an acknowledgement was lost.
    id blob not null,
    at integer not null,
    format integer not null,
    kind integer not null,
    step integer,
    action integer,
    -- What people ask for stands in columns. Long texts among it are not in `body` too; they are put back on reading.
    -- The tool of an action, the subgoal of a step.
    name text,
    -- The item of a subgoal's list.
    item integer,
    -- The code of an outcome, the route of a verdict, the outcome of a subgoal or a run.
    word text,
    took_us integer,
    -- An error, or a reason.
    note text,
    -- 4 bytes: the first of the BLAKE3 of all that the row says but for `run`. 1 byte: how the rest is written. 0:
    -- JSON; 1: zstd with the dictionary of number 1, without zstd's 4 magic bytes.
    body blob not null
) strict;

create unique index record_by_seq on record (run, seq);
create index record_by_step on record (run, step) where step is not null;

-- Which record holds which version of a state value. The value itself stands in the record.
create table state (
    run integer not null,
    key text not null,
    seq integer not null,
    -- The member of the map under the key; null for a single value, which replaces the key as a whole.
    member text,
    primary key (run, key, seq)
) strict, without rowid;

-- What a run did, or may have done, to the world outside.
create table effect (
    run integer not null,
    step integer not null,
    action integer not null,
    -- The idempotency key: 16 bytes where it is 32 hexadecimal digits, else text.
    token any not null,
    business_key text,
    -- Whether it holds its business key. Not by `state` alone: an answer can come after another action took the free
    -- key.
    holds_key integer not null check (holds_key in (0, 1)),
    state text not null check (state in ('started', 'confirmed', 'failed', 'unknown', 'not_happened')),
    attempts integer not null,
    -- The records that tell when it was started, and its first outcome.
    started_seq integer not null,
    outcome_seq integer,
    -- Whether that outcome left the effect unknown: then a later one takes its place.
    outcome_open integer not null default 0 check (outcome_open in (0, 1)),
    primary key (run, step, action)
) strict, without rowid;

create unique index effect_by_token on effect (token);
create unique index effect_by_business_key on effect (run, business_key) where holds_key;

-- Content that records refer to, once for all runs. `codec` 1: compressed by zstd.
create table blob (
    place integer primary key,
    hash blob not null check (length(hash) = 32),
    size integer not null,
    codec integer not null check (codec in (0, 1)),
    content blob not null
) strict;

create unique index blob_by_hash on blob (hash);

-- Shortcuts for loading a run: never the only copy of anything. `hash` is that of the bytes before compression.
create table checkpoint (
    run integer not null,
    seq integer not null,
    at integer not null,
    hash blob not null,
    size integer not null,
    codec integer not null check (codec in (0, 1)),
    content blob not null,
    primary key (run, seq)
) strict;

-- A row for each run.
create view task_runs as
select
    'run_' || lower(hex(run.id)) as run_id,
    run.name as task,
    lower(hex(run.task)) as task_hash,
    run.status,
    run.steps,
    run.head_seq as records,
    strftime('%Y-%m-%dT%H:%M:%fZ', run.created_at / 1e6, 'unixepoch') as created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', run.updated_at / 1e6, 'unixepoch') as updated_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', run.wake_at / 1e6, 'unixepoch') as wake_at,
    case when run.lease_until / 1e6 > unixepoch('subsec') then run.worker_label end as owner,
    run.workspace
from run;

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
    'run_' || lower(hex(run.id)) as run_id,
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
    strftime('%Y-%m-%dT%H:%M:%fZ', first.at / 1e6, 'unixepoch') as started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', evaluated.at / 1e6, 'unixepoch') as ended_at,
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
    'run_' || lower(hex(run.id)) as run_id,
    run.name as task,
    ended.step,
    ended.action,
    decided.name as tool,
    kind.name as event,
    ended.word as code,
    ended.took_us / 1000.0 as call_ms,
    ended.note as error,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended.at / 1e6, 'unixepoch') as ended_at
from record as ended
join run on run.key = ended.run
join kind on kind.number = ended.kind
left join decided on decided.run = ended.run and decided.step = ended.step and decided.action = ended.action
where ended.kind in (7, 10);
