-- The other open tasks of the context last as long as it does, also in the caller's index.
local seen = redis.call('HMGET', task_key(other), 'phase', 'at', 'state')
if seen[1] then owe_task(other, nil, seen[1] .. '|' .. seen[2] .. '|' .. seen[3]) end
