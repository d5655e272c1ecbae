-- Makes the fleet's hints about one context what the context's own keys say: whether it counts as live, whose roster its
-- running turn is on, and whether its queue waits for somebody. A failover can lose a hint and not the truth; without it
-- nobody would look for the turn. Changes nothing where all is well.
-- @keys context ?live ?index ?workers ?turns ?ready
-- @args prefix caller cid ref channel owner context_ms idle_ms
-- @include clock partition shared open live context
-- Replies: live <roster> <ready> | released | moved (the turn is not the owner's whose roster was given)
local run = redis.call('HMGET', context, 'run', 'run_owner')
local running = run[1] and run[1] ~= ''
if running and run[2] ~= owner then return {'moved'} end
settle_live(is_busy(), true)
local roster, offered = 0, 0
if running and turns then
  roster = redis.call('SADD', turns, ref .. ':' .. run[1])
  redis.call('PEXPIRE', turns, context_ms)
  redis.call('ZADD', workers, 'NX', now, owner)
  redis.call('PEXPIRE', workers, context_ms)
elseif ready and redis.call('EXISTS', queue) == 1 then
  offered = redis.call('SADD', ready, ref)
  redis.call('PEXPIRE', ready, context_ms)
end
if running or redis.call('EXISTS', queue) == 1 or open_tasks() ~= ' ' then
  return {'live', roster, offered}
end
return {'released'}
