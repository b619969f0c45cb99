-- What people do to runs and stores, as migrations/sqlite/0002_care.sql has it: accepting changes, moving runs, taking them over.

insert into kind (number, name) values (27, 'changes_accepted');

-- The ids of workers that had the run and never gave it up, since the last append, the latest last. What they started may
-- still be at work on their machines.
alter table run add column workers_before text[] not null default '{}';
