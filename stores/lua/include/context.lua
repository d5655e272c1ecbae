-- The context as a whole: whether a turn runs or waits in it, and its renewal. Wants: context_ms.
local function is_busy()
  local run = redis.call('HGET', context, 'run')
  return (run and run ~= '') or redis.call('EXISTS', queue) == 1
end

local function keep_context()
  redis.call('PEXPIRE', context, context_ms)
  redis.call('PEXPIRE', queue, context_ms)
end
