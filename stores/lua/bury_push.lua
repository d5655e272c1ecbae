-- Gives up on one event for one callback: the cursor moves on, and the letter is kept with where it would have to be
-- taken up again. A task keeps so many letters, and beyond that only those the caller must be able to find (`always`).
-- @keys push ?letters
-- @args worker fence name version to letter entry always most context_ms
-- @include clock position
-- Replies: buried | lost | gone
local facts = redis.call('HMGET', push, 'owner', 'fence', 'v:' .. name, 'c:' .. name, 'letters')
if facts[1] ~= worker or facts[2] ~= fence then return {'lost'} end
if facts[3] ~= version then return {'gone'} end
if not before(facts[4], to) then return {'buried'} end
redis.call('HSET', push, 'c:' .. name, to)
if always == '1' or tonumber(facts[5] or '0') < tonumber(most) then
  redis.call('HSET', push, 'l:' .. name .. ':' .. to, facts[4] .. '|' .. letter)
  redis.call('HINCRBY', push, 'letters', 1)
  if letters then
    redis.call('ZADD', letters, now, entry .. ':' .. name .. ':' .. to)
    redis.call('ZREMRANGEBYSCORE', letters, '-inf', text(now_ms - tonumber(context_ms)))
    redis.call('PEXPIRE', letters, context_ms)
  end
end
return {'buried'}
