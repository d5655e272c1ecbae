-- Tasks leave a listing when their documents lapse: a few at each call, so that it never grows with time. Says whether
-- there may be more. Wants the parts listing, sides and renew.
local function index_prune(key, most)
  local more = renew_form(key, most)
  for _, state in ipairs(states_of(key, 'e|')) do
    local head = 'e|' .. state .. '|'
    local gone = redis.call('ZRANGEBYLEX', key, '[' .. head, '(' .. head .. text(now_ms - tonumber(task_ms)), 'LIMIT', 0, most)
    if #gone > 0 then redis.call('ZREM', key, unpack(gone)) end
    more = more or #gone == most
  end
  if key == shelf then return more end
  -- Nothing says when a turn's task lapses, because turns end. One that did not for so long is given a time, too.
  for _, state in ipairs(states_of(key, 'a|')) do
    local head = 'a|' .. state .. '|'
    local old = redis.call('ZRANGEBYLEX', key, '[' .. head, '(' .. head .. text(now_ms - tonumber(context_ms)), 'LIMIT', 0, most)
    for _, member in ipairs(old) do
      redis.call('ZADD', key .. ':lapse', 'NX', text(now_ms + tonumber(context_ms)), string.sub(member, #head + 1) .. '|' .. state)
      keep_shared(key .. ':lapse', context_ms)
    end
  end
  local lapsed = redis.call('ZRANGEBYSCORE', key .. ':lapse', '-inf', now, 'LIMIT', 0, most)
  for _, member in ipairs(lapsed) do
    local at, id, state = string.match(member, '^(%d+)|([^|]+)|(.+)$')
    redis.call('ZREM', key, member_of('waiting', at, id, state))
    redis.call('ZREM', key .. ':lapse', member)
  end
  return more or #lapsed == most
end
