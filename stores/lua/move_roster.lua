-- Changes what the fleet knows of one worker: pairs of a word and an entry. `+` and `-` are turns of its roster, `d` and
-- `x` deliveries that it serves and does not. Whoever has a roster is in the fleet's list, or nobody would look for it.
-- @keys workers turns deliveries
-- @args worker context_ms ...moves
-- @include clock shared
-- Replies: moved
-- First a write that takes no memory: Redis judges that at a script's first write only, and a full one must let a turn
-- be taken over.
redis.call('PEXPIRE', workers, context_ms)
local kept = false
for i = 1, #moves, 2 do
  local word, entry = moves[i], moves[i + 1]
  if word == '+' then redis.call('SADD', turns, entry) end
  if word == '-' then redis.call('SREM', turns, entry) end
  if word == 'd' then redis.call('SADD', deliveries, entry) end
  if word == 'x' then redis.call('SREM', deliveries, entry) end
  kept = kept or word == '+' or word == 'd'
end
if kept then
  keep_shared(turns, context_ms)
  redis.call('PEXPIRE', deliveries, context_ms)
  redis.call('ZADD', workers, 'NX', now, worker)
  redis.call('PEXPIRE', workers, context_ms)
end
return {'moved'}
