-- Who delivers a task's events to its callbacks: the claim is in the push hash, the worker's roster only finds it.
-- Wants args: worker context_ms; optional keys: deliveries (the worker's roster), workers. A worker that takes no part
-- in deliveries leaves them out. Both answer the claim's fence, '' where it is somebody else's.
local function own_delivery(push)
  if not deliveries then return '' end
  local claim = redis.call('HMGET', push, 'owner', 'fence')
  return claim[1] == worker and claim[2] or ''
end

local function take_delivery(push, entry)
  if not deliveries then return '' end
  if redis.call('HGET', push, 'owner') ~= '' then return own_delivery(push) end
  local fence = text(redis.call('HINCRBY', push, 'fence', 1))
  redis.call('HSET', push, 'owner', worker)
  redis.call('SADD', deliveries, entry)
  redis.call('PEXPIRE', deliveries, context_ms)
  -- Whoever has a roster is in the fleet's list, or nobody would look for it.
  redis.call('ZADD', workers, 'NX', now, worker)
  redis.call('PEXPIRE', workers, context_ms)
  return fence
end
