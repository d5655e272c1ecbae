-- The facts of a task beside its opaque document. Wants args: context_ms task_ms log_ms; optional key: index; the part
-- open, which its user saves.
-- phase is open (running or queued), waiting (for its caller) or closed; state is the server's word for it.
-- `old` are phase, at, state, last and first as they are now, where the script has read them already.
local function unlist(task, old)
  old = old or redis.call('HMGET', task_key(task), 'phase', 'at', 'state')
  if not old[1] then return end
  if index then index_drop(index, task, old[1], old[2], old[3]) end
end

-- What else is to be written with it comes as further fields: one command for all of them. Says whether the task has
-- callbacks.
local function set_state(task, phase, state, old, ...)
  local key, closed = task_key(task), phase == 'closed'
  unlist(task, old)
  redis.call('HSET', key, 'phase', phase, 'at', now, 'state', state, ...)
  list_task(task, phase, now, state)
  put_open(task, not closed)
  redis.call('PEXPIRE', key, closed and task_ms or context_ms)
  -- Where `first` is set there is no stream.
  if not (old and old[5]) then redis.call('PEXPIRE', log_key(task), closed and log_ms or context_ms) end
  return redis.call('PEXPIRE', push_key(task), closed and task_ms or context_ms) == 1
end

-- Adds one entry to the task's stream under an explicit id, unless it is there already (a repeated call). Answers the log's
-- last id, which the caller stores with the task.
local function add_entry(task, last, fence, seq, kind, doc)
  local at_fence, at_seq = string.match(last, '^(%d+)-(%d+)$')
  at_fence, at_seq = tonumber(at_fence), tonumber(at_seq)
  if at_fence > tonumber(fence) or (at_fence == tonumber(fence) and at_seq >= seq) then return last end
  local id = fence .. '-' .. seq
  redis.call('XADD', log_key(task), id, 'k', kind, 'a', now, 'd', doc)
  return id
end

local function record(task, fence, seq, kind, doc)
  local facts = redis.call('HMGET', task_key(task), 'last', 'first')
  local last = facts[1] or '0-0'
  if facts[2] then unfold(task) end
  local id = add_entry(task, last, fence, seq, kind, doc)
  if id == last then return false end
  redis.call('HSET', task_key(task), 'last', id)
  return true
end
