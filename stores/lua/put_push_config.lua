-- Registers a callback for a task, or replaces the one of the same name. It is told what comes after this instant: its
-- cursor is the task's last event. While a turn runs or waits, the delivery is given to the worker that asks, unless
-- another one has it, which is woken then.
-- @keys push task ?deliveries ?workers
-- @args worker entry name doc limit signals context_ms task_ms
-- @include clock push claim
-- Replies: put <fence, '' where another worker delivers> | too_many | unknown
local facts = redis.call('HMGET', task, 'phase', 'last')
if not facts[1] then return {'unknown'} end
if too_many(push, name, limit) then return {'too_many'} end
-- A repeat of the call is not a second registration: the events in between are not forgotten.
if redis.call('HGET', push, 'd:' .. name) ~= doc then put_config(push, name, doc, facts[2]) end
redis.call('PEXPIRE', push, facts[1] == 'closed' and task_ms or context_ms)
if facts[1] ~= 'open' then return {'put', ''} end
local fence = take_delivery(push, entry)
if fence == '' then redis.call('PUBLISH', signals .. redis.call('HGET', push, 'owner'), 'push:' .. entry) end
return {'put', fence}
