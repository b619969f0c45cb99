-- Budgets of accounts, and what people tell a run that somebody works on.

insert into kind (number, name) values
    (31, 'budget_warned'), (32, 'budget_staged'), (33, 'note_taken'), (34, 'order_taken');

-- What the runs of an account used on a day, and what calls under way may use. `day` counts from 1970-01-01, UTC. Money is
-- in picodollars.
create table budget (
    account text not null,
    day integer not null,
    spent_tokens integer not null default 0 check (spent_tokens >= 0),
    spent_cost integer not null default 0 check (spent_cost >= 0),
    reserved_tokens integer not null default 0 check (reserved_tokens >= 0),
    reserved_cost integer not null default 0 check (reserved_cost >= 0),
    primary key (account, day)
) strict, without rowid;

-- The part of each model call in it: what it may use at most, until it is settled. Then the row stays, so that a call is
-- never counted twice.
create table reservation (
    run integer not null,
    call integer not null,
    account text not null,
    day integer not null,
    tokens integer not null,
    cost integer not null,
    settled integer not null default 0 check (settled in (0, 1)),
    primary key (run, call)
) strict, without rowid;

-- What people tell runs, in the order in which it came. Whoever works on the run takes it into the archive.
create table inbox (
    place integer primary key,
    run integer not null,
    id blob not null unique check (length(id) = 16),
    -- JSON.
    content text not null,
    taken integer not null default 0 check (taken in (0, 1))
) strict;

create index inbox_waiting on inbox (run) where not taken;
