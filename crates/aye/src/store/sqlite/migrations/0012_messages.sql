-- Messages that show an ask, a run, a list or an offer are one kind of thing to remember, no longer three.
UPDATE memory SET kind = 'message', body = json_object(
    'id', body ->> 'id', 'chat', body -> 'chat', 'message', body -> 'message', 'lost', body -> 'lost',
    'shows', json_object('ask', json_object(
        'ask', body ->> 'ask', 'digest', body ->> 'digest', 'draft', body -> 'draft', 'decided', body -> 'done')),
    'tokens', body -> 'tokens', 'shown', body ->> 'shown',
    'sides', json(coalesce(body -> 'sides', '[]')),
    'settled', body -> 'settled', 'made_at', body ->> 'made_at')
WHERE surface = 'telegram' AND kind = 'copy';

UPDATE memory SET kind = 'message', body = json_object(
    'id', body ->> 'id', 'chat', body -> 'chat', 'message', body -> 'message', 'lost', body -> 'lost',
    'shows', json_object('run', json_object(
        'agent', body ->> 'agent', 'since', body -> 'since', 'cancelled', body -> 'cancelled')),
    'tokens', json_object(body ->> 'token', json('{"do":"cancel"}')), 'shown', body ->> 'shown',
    'sides', json((SELECT json_group_array(json_object('message', value, 'what', 'end_notice'))
                   FROM json_each(coalesce(body -> 'sides', '[]')))),
    'settled', body -> 'done', 'made_at', body ->> 'made_at')
WHERE surface = 'telegram' AND kind = 'card';

UPDATE memory SET kind = 'message', body = json_object(
    'id', body ->> 'id', 'chat', body -> 'chat', 'message', body -> 'message', 'lost', body -> 'lost',
    'shows', json_object('list', body -> '$.what.waiting'),
    'tokens', body -> 'tokens', 'shown', body ->> 'shown', 'sides', json('[]'),
    'settled', json('false'), 'made_at', body ->> 'made_at')
WHERE surface = 'telegram' AND kind = 'menu' AND body -> '$.what.waiting' IS NOT NULL;

DELETE FROM memory WHERE surface = 'telegram' AND kind = 'menu';
