-- Gives one of all workers the next few places to look after: those reserved some time ago, the oldest first, a few at a
-- time and all of them in turn.
-- @keys live
-- @args age_ms pause_ms size context_ms
-- @include clock
-- Replies: places <refs and stamps>
local sweep = live .. ':sweep'
local facts = redis.call('HMGET', sweep, 'after', 'next')
if facts[2] and tonumber(facts[2]) > now_ms then return {'places', {}} end
local until_us = text((now_ms - tonumber(age_ms)) * 1000)
local found = redis.call('ZRANGEBYSCORE', live .. ':stamps', '(' .. (facts[1] or '0'), until_us, 'WITHSCORES', 'LIMIT', 0, size)
local more = #found == 2 * tonumber(size)
-- The end of a round is a longer pause.
redis.call('HSET', sweep, 'after', more and found[#found] or '0',
  'next', text(now_ms + tonumber(pause_ms) * (more and 1 or 5)))
redis.call('PEXPIRE', sweep, context_ms)
return {'places', found}
