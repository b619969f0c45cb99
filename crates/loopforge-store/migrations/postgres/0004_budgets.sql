-- Budgets of accounts, and what people tell a run that somebody works on.

insert into kind (number, name) values
    (31, 'budget_warned'), (32, 'budget_staged'), (33, 'note_taken'), (34, 'order_taken');

-- What the runs of an account used on a day, and what calls under way may use. `day` counts from 1970-01-01, UTC, by this
-- server's clock. Money is in picodollars.
create table budget (
    account text collate "C" not null,
    day bigint not null,
    spent_tokens bigint not null default 0 check (spent_tokens >= 0),
    spent_cost bigint not null default 0 check (spent_cost >= 0),
    reserved_tokens bigint not null default 0 check (reserved_tokens >= 0),
    reserved_cost bigint not null default 0 check (reserved_cost >= 0),
    primary key (account, day)
) with (fillfactor = 50);

-- The part of each model call in it: what it may use at most, until it is settled. Then the row stays, so that a call is
-- never counted twice.
create table reservation (
    run bigint not null,
    call bigint not null,
    account text collate "C" not null,
    day bigint not null,
    tokens bigint not null,
    cost bigint not null,
    settled boolean not null default false,
    primary key (run, call)
);

-- What people tell runs, in the order in which it came. Whoever works on the run takes it into the archive.
create table inbox (
    place bigint generated always as identity primary key,
    run bigint not null,
    id uuid not null unique,
    -- JSON.
    content text not null,
    taken boolean not null default false
);

create index inbox_waiting on inbox (run) where not taken;
