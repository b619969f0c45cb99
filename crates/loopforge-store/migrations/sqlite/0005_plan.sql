-- Plans and judgements.

insert into kind (number, name) values
    (35, 'consult_started'), (36, 'consult_failed'), (37, 'plan_amended'), (38, 'judged');
