-- Reserves a context's place in a set of live contexts, before it is admitted in its own slot: always under a fresh stamp
-- of the set's counter, so that whoever gives back an older one takes nothing away. A context that has a place keeps it,
-- whatever the limit. With `busy`, the same in a caller's two sets, where a limit counts them (0: it does not).
-- @keys live ?busy ?index
-- @args ref task most busy_most most_tasks context_ms task_ms floor
-- @include clock shared sides
-- Replies: reserved <stamp> | full <which: live, busy or tasks>
local function full(set, limit)
  if tonumber(limit) == 0 then return false end
  local deadline = redis.call('ZSCORE', set, ref)
  if deadline and tonumber(deadline) > now_ms then return false end
  return redis.call('ZCOUNT', set, '(' .. now, '+inf') >= tonumber(limit)
end
if busy and full(busy, busy_most) then return {'full', 'busy'} end
if full(live, most) then return {'full', 'live'} end
if index and tonumber(most_tasks) > 0 then
  local kept = count_kept(index)
    + redis.call('ZCOUNT', index .. ':coming', '(' .. now, '+inf')
  if kept >= tonumber(most_tasks) and not redis.call('ZSCORE', index .. ':coming', task) then
    return {'full', 'tasks'}
  end
  -- Counted from now on, also before it is listed.
  redis.call('ZREMRANGEBYSCORE', index .. ':coming', '-inf', now)
  redis.call('ZADD', index .. ':coming', text(now_ms + 30000), task)
  redis.call('PEXPIRE', index .. ':coming', 60000)
end
local counter = live .. ':stamp'
-- The clock only lifts the counter, above what a failover may have lost of it.
local stamp = text(math.max(tonumber(redis.call('GET', counter) or '0') + 1,
  tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(floor) + 1))
redis.call('SET', counter, stamp, 'PX', text(2 * tonumber(context_ms)))
local function place(set)
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 16)) do
    redis.call('ZREM', set, lapsed)
    redis.call('ZREM', set .. ':stamps', lapsed)
  end
  redis.call('ZADD', set, text(now_ms + tonumber(context_ms)), ref)
  redis.call('ZADD', set .. ':stamps', stamp, ref)
  keep_shared(set, context_ms)
  keep_shared(set .. ':stamps', context_ms)
end
if not busy or most ~= '0' then place(live) end
if busy and busy_most ~= '0' then place(busy) end
return {'reserved', stamp}
