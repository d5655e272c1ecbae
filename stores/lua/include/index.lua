-- How a task leaves the listings that the part `listing` describes.
local function index_drop(key, id, phase, at, state)
  local side = phase == 'closed' and 'c' or 'o'
  redis.call('ZREM', key, side .. '|' .. at .. '|' .. id .. '|' .. state, 's|' .. state .. '|' .. at .. '|' .. id)
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
