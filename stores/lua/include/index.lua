-- A listing index is one sorted set, all scores 0, ordered by its members' text. A task has two members:
--   o|<at>|<id>|<state> or c|<at>|<id>|<state>   every task by time, open and closed ones apart
--   s|<state>|<at>|<id>                          the same by state
-- so that a page, a count and a filter each cost O(log n). The context's own (shelf) and the caller's have one form.
-- An open task lapses some time after its context's last turn, of which its members know nothing: beside the caller's
-- index, <key>:lapse has that time for each <at>|<id>|<state>. The shelf itself lapses with its context.
local function index_drop(key, id, phase, at, state)
  local side = phase == 'closed' and 'c' or 'o'
  redis.call('ZREM', key, side .. '|' .. at .. '|' .. id .. '|' .. state, 's|' .. state .. '|' .. at .. '|' .. id)
end

local function index_add(key, id, phase, at, state, ttl)
  local side = phase == 'closed' and 'c' or 'o'
  redis.call('ZADD', key, 0, side .. '|' .. at .. '|' .. id .. '|' .. state, 0, 's|' .. state .. '|' .. at .. '|' .. id)
  redis.call('PEXPIRE', key, ttl)
end

local function index_keep(key, id, at, state, ttl)
  redis.call('ZADD', key .. ':lapse', text(now_ms + tonumber(ttl)), at .. '|' .. id .. '|' .. state)
  redis.call('PEXPIRE', key .. ':lapse', ttl)
end

-- Tasks leave the index when their documents lapse: a few at each write, so that it never grows with time. Says whether
-- there may be more.
local function index_prune(key, lapse_ms, most)
  local gone = redis.call('ZRANGEBYLEX', key, '[c|', '(c|' .. text(now_ms - tonumber(lapse_ms)), 'LIMIT', 0, most)
  for _, member in ipairs(gone) do
    local at, id, state = string.match(member, '^c|(%d+)|([^|]+)|(.+)$')
    redis.call('ZREM', key, member, 's|' .. state .. '|' .. at .. '|' .. id)
  end
  local lapsed = redis.call('ZRANGEBYSCORE', key .. ':lapse', '-inf', now, 'LIMIT', 0, most)
  for _, member in ipairs(lapsed) do
    local at, id, state = string.match(member, '^(%d+)|([^|]+)|(.+)$')
    redis.call('ZREM', key, 'o|' .. member, 's|' .. state .. '|' .. at .. '|' .. id)
    redis.call('ZREM', key .. ':lapse', member)
  end
  return #gone == most or #lapsed == most
end
