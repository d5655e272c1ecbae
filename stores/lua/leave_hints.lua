-- Leaves hints for any worker: pairs of a word and an entry, `u` a task with news that nobody delivers, `r` a context
-- whose queue waits for somebody; `U` and `R` take one away.
-- @keys undelivered ready
-- @args context_ms ...hints
-- Replies: left
-- First a write that takes no memory: Redis judges that at a script's first write only, and a full one must let go.
redis.call('PEXPIRE', undelivered, context_ms)
for i = 1, #hints, 2 do
  local word, entry = hints[i], hints[i + 1]
  if word == 'u' then redis.call('SADD', undelivered, entry) end
  if word == 'r' then redis.call('SADD', ready, entry) end
  if word == 'U' then redis.call('SREM', undelivered, entry) end
  if word == 'R' then redis.call('SREM', ready, entry) end
end
redis.call('PEXPIRE', undelivered, context_ms)
redis.call('PEXPIRE', ready, context_ms)
return {'left'}
