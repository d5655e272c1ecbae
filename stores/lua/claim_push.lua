-- Takes the delivery of a task that nobody has (`owner` is ''), that a dead worker had, or that is stored as this
-- worker's own. The old holder can settle nothing from here on.
-- @keys push ?deliveries ?workers ?former ?undelivered
-- @args worker owner entry context_ms
-- @include clock claim
-- Replies: claimed <fence> | nothing
if former then redis.call('SREM', former, entry) end
-- Whatever is found, the hint is answered with it.
if undelivered then redis.call('SREM', undelivered, entry) end
local held = redis.call('HGET', push, 'owner')
if held == worker then
  -- @together
  redis.call('SADD', deliveries, entry)
  redis.call('PEXPIRE', deliveries, context_ms)
  -- @apart nothing
  return {'claimed', own_delivery(push)}
end
if not held or held ~= owner then return {'nothing'} end
redis.call('HSET', push, 'owner', '')
return {'claimed', take_delivery(push, entry)}
