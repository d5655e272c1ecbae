-- A listing index is one sorted set, all scores 0, ordered by its members' text. A task has two members:
--   o|<at>|<id>|<state> or c|<at>|<id>|<state>   every task by time, open and closed ones apart
--   s|<state>|<at>|<id>                          the same by state
-- so that a page, a count and a filter each cost O(log n). The context's own (shelf) and the caller's have one form.
-- An open task lapses some time after its context's last turn, of which its members know nothing: beside the caller's
-- index, <key>:lapse has that time for each <at>|<id>|<state>. The shelf itself lapses with its context.
-- Wants: context_ms; optional key: index.
local function index_add(key, id, phase, at, state)
  local side = phase == 'closed' and 'c' or 'o'
  redis.call('ZADD', key, 0, side .. '|' .. at .. '|' .. id .. '|' .. state, 0, 's|' .. state .. '|' .. at .. '|' .. id)
end

local function index_keep(key, id, at, state, ttl)
  redis.call('ZADD', key .. ':lapse', text(now_ms + tonumber(ttl)), at .. '|' .. id .. '|' .. state)
  keep_shared(key .. ':lapse')
end

local function list_task(task, phase, at, state)
  index_add(shelf, task, phase, at, state)
  redis.call('PEXPIRE', shelf, context_ms)
  if not index then return end
  index_add(index, task, phase, at, state)
  keep_shared(index)
  if phase ~= 'closed' then index_keep(index, task, at, state, context_ms) end
end
