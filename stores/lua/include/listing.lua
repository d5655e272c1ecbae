-- A listing is one sorted set, all scores 0, ordered by its members' text. A task has one member in its caller's index:
--   a|<state>|<at>|<id>   while it runs, waits for its turn or for its caller
--   e|<state>|<at>|<id>   when it has ended
-- so that a page, a count and a filter each cost O(log n): there are few states, and each is found from the one before.
-- The context's own listing (shelf) has those that have ended; the others are in the context's own list of open tasks.
-- A task that waits for its caller lapses some time after its context's last turn, of which its member knows nothing:
-- beside the caller's index, <key>:lapse has that time for each <at>|<id>|<state>.
-- Wants: context_ms task_ms; optional key: index.
local function member_of(phase, at, id, state)
  return (phase == 'closed' and 'e|' or 'a|') .. state .. '|' .. at .. '|' .. id
end

local function index_keep(key, id, at, state)
  redis.call('ZADD', key .. ':lapse', text(now_ms + tonumber(context_ms)), at .. '|' .. id .. '|' .. state)
  keep_shared(key .. ':lapse', context_ms)
end

local function list_task(task, phase, at, state)
  local member = member_of(phase, at, task, state)
  if phase == 'closed' and shelf then
    redis.call('ZADD', shelf, 0, member)
    keep_shared(shelf, task_ms)
  end
  if not index then return end
  redis.call('ZADD', index, 0, member)
  keep_shared(index, context_ms)
  if phase == 'waiting' then index_keep(index, task, at, state) end
end
