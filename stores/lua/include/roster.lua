-- Puts a turn on the worker's roster. Whoever has a roster is in the fleet's list, also a worker that was reaped and
-- does not know it yet, or has not beaten yet: otherwise nobody would look for its turns. It leaves that list only
-- without a roster, so who finds one need not look.
local function enroll(task)
  if not turns then return end
  redis.call('SADD', turns, ref .. ':' .. task)
  if keep_shared(turns, context_ms) then
    redis.call('ZADD', workers, 'NX', now, worker)
    redis.call('PEXPIRE', workers, context_ms)
  end
end
