-- One heartbeat: the worker's counter moves, its lists stay alive, and it learns what it needs to know of the fleet:
-- the counters of all the others, the turns stored as its own, the contexts that wait for somebody to run them, and the
-- generation of the assistant that all are asked to serve; likewise of deliveries to callbacks; and an operator's wish.
-- @keys workers beat turns ready tombstone generation deliveries undelivered
-- @args worker beat_ms context_ms info prefix
-- @include clock
-- Replies: beating <counters> <turns> <ready> <generation> <deliveries> <undelivered> <wish> | reaped
if redis.call('EXISTS', tombstone) == 1 then return {'reaped'} end
-- First a write that takes no memory: Redis judges that at a script's first write only, and a full Redis must not make
-- the fleet look dead.
redis.call('PEXPIRE', turns, context_ms)
redis.call('PEXPIRE', deliveries, context_ms)
redis.call('PEXPIRE', generation, context_ms)
redis.call('PEXPIRE', prefix .. 'schema', context_ms)
redis.call('HINCRBY', beat, 'count', 1)
redis.call('HSET', beat, 'info', info, 'seen', now)
redis.call('PEXPIRE', beat, beat_ms)
redis.call('ZADD', workers, now, worker)
redis.call('PEXPIRE', workers, context_ms)
local counters = {}
for _, other in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  counters[#counters + 1] = other
  counters[#counters + 1] = redis.call('HGET', prefix .. 'beat:' .. other, 'count') or ''
end
return {'beating', counters, redis.call('SMEMBERS', turns), redis.call('SRANDMEMBER', ready, 16),
  redis.call('GET', generation) or '', redis.call('SMEMBERS', deliveries), redis.call('SRANDMEMBER', undelivered, 128),
  redis.call('HGET', beat, 'wish') or ''}
