-- Something happened to a task that nobody delivers for: a hint that any worker takes at its next beat.
-- Wants args: context_ms; optional key: undelivered.
local function ask_delivery(push, entry)
  if not undelivered or redis.call('HGET', push, 'owner') ~= '' then return end
  redis.call('SADD', undelivered, entry)
  redis.call('PEXPIRE', undelivered, context_ms)
end
