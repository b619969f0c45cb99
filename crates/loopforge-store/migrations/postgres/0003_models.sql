-- Calls of models.

insert into kind (number, name) values (28, 'model_called'), (29, 'model_replied'), (30, 'model_failed');
