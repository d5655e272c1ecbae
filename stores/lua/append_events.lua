-- Adds a running turn's events to its task's log, and now and then a folded document so that the log can be trimmed.
-- A repeat of the same sequence numbers adds nothing and answers the same.
-- @keys context ?index
-- @args prefix channel caller cid worker mid task fence seq doc keep ...entries
-- @const context_ms task_ms log_ms
-- Replies: appended <at> <cancel> | lost
-- @include clock partition shared open listing index task
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner', 'run_mid', 'cancel', 'open')
if run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[4] ~= mid then return {'lost'} end
-- First a write that takes no memory: Redis judges that at a script's first write only, and when it is full, what runs
-- must be able to end.
redis.call('PEXPIRE', log_key(task), context_ms)
open_list = run[6] or ' '
local added, state = false, nil
local last = tonumber(seq)
for i = 1, #entries, 3 do
  if record(task, fence, last, entries[i], entries[i + 2]) then
    added = true
    if entries[i + 1] ~= '' then state = entries[i + 1] end
  end
  last = last + 1
end
if added then
  if state then
    set_state(task, 'open', state)
    save_open()
  end
  if doc ~= '' then
    local cursor = fence .. '-' .. (last - 1)
    redis.call('HSET', task_key(task), 'doc', doc, 'cursor', cursor)
    local log = log_key(task)
    if redis.call('XLEN', log) > tonumber(keep) then
      redis.call('XTRIM', log, 'MAXLEN', '=', keep)
      local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)
      local trimmed = cursor
      if first[1] then
        local f, s = string.match(first[1][1], '^(%d+)-(%d+)$')
        -- Everything before the first entry left is gone; (first - 1) is the oldest cursor that still has no gap.
        trimmed = f .. '-' .. text(tonumber(s) - 1)
      end
      redis.call('HSET', task_key(task), 'trimmed', trimmed)
    end
  end
  redis.call('PEXPIRE', log_key(task), context_ms)
  wake(task, 'open')
end
return {'appended', now, run[5] == fence and 1 or 0}
