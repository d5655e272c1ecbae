-- Asks for the end of a task. A running turn is marked and its worker woken; a task that only waits in the queue is
-- removed and closed here, with the document the caller folded (`based` proves it is still the right one); one that is
-- idle is left to a turn of its own, which takes its place among the context's turns.
-- @keys context ?live ?index ?undelivered
-- @args prefix channel signals caller cid ref task based state doc event
-- @const context_ms task_ms log_ms message_ms idle_ms
-- @include clock partition shared open listing outcome index unfold task unclaimed live context
-- Replies: requested <fence> <owner> | canceled <at> | idle | closed <state> | changed | unknown
local facts = redis.call('HMGET', task_key(task), 'phase', 'state', 'last', 'canceled_on', 'at')
if not facts[1] then return {'unknown'} end
if facts[1] == 'closed' then
  -- A repeat of the call that closed it is told so, not that it came too late.
  if facts[4] == based then return {'canceled', facts[5]} end
  return {'closed', facts[2]}
end
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner')
if run[1] == task then
  -- First a write that takes no memory: Redis judges that at a script's first write only, and a full one must let go.
  redis.call('PEXPIRE', context, context_ms)
  redis.call('HSET', context, 'cancel', run[2])
  redis.call('PUBLISH', signals .. run[3], 'cancel:' .. task .. ':' .. run[2])
  return {'requested', run[2], run[3]}
end
if facts[1] == 'waiting' then return {'idle'} end
if facts[3] ~= based then return {'changed'} end
local mine = {}
for _, entry in ipairs(redis.call('LRANGE', queue, 0, -1)) do
  local mid, queued = string.match(entry, '^([^:]+):(.+)$')
  if queued == task then mine[#mine + 1] = {entry, mid} end
end
for _, it in ipairs(mine) do
  redis.call('LREM', queue, 1, it[1])
  close_message(it[2], '')
end
local fence = text(redis.call('HINCRBY', context, 'fence', 1))
record(task, fence, 1, 'status', event)
redis.call('HSET', task_key(task), 'doc', doc, 'cursor', fence .. '-1', 'canceled_on', based)
set_state(task, 'closed', state)
settle_live(is_busy(), true)
save_open()
keep_context()
ask_delivery(push_key(task), caller .. ':' .. task)
wake(task, 'closed')
return {'canceled', now}
