-- The contexts that count against the cap: those with a running or queued turn or an open task. A set with a deadline
-- per member, not a counter, so nothing can leak. Wants args: context_ms idle_ms; optional keys: live index; the part open.
-- Beside a caller's index, <index>:live and <index>:busy are the same for its own limits. Only an admission under such a
-- limit adds to them; every other step renews or removes what it finds there, whatever its worker's own limits are, so
-- that a fleet with two settings, as in a rolling deploy, leaves nothing behind.
local function settle_own(set, deadline)
  if redis.call('EXISTS', set) == 0 then return end
  if deadline then
    redis.call('ZADD', set, 'XX', deadline, cid)
    redis.call('PEXPIRE', set, context_ms)
    redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
  else
    redis.call('ZREM', set, cid)
  end
end

-- `busy`: a turn runs or waits. `limited`: this caller's own sets may have to be touched.
local function settle_live(busy, limited)
  if not live then return end
  local deadline
  if busy or open_tasks() ~= ' ' then
    deadline = text(now_ms + tonumber((busy or idle_ms == '0') and context_ms or idle_ms))
  end
  if index and limited then
    settle_own(index .. ':live', deadline)
    settle_own(index .. ':busy', busy and deadline)
  end
  if deadline then
    redis.call('ZADD', live, deadline, ref)
    keep_shared(live, context_ms)
  else
    redis.call('ZREM', live, ref)
  end
end
