-- Counts one request of a caller, unless as many as it may send came within the last window already. A refused one is
-- not counted, so a caller that never pauses still gets its share. A repeat with the same token is counted once.
-- @keys rate
-- @args token most window_ms
-- @include clock
-- Replies: counted | refused <ms until the oldest one leaves the window>
if redis.call('ZSCORE', rate, token) then return {'counted'} end
local since = now_ms - tonumber(window_ms)
local inside = '(' .. text(since)
if redis.call('ZCOUNT', rate, inside, '+inf') >= tonumber(most) then
  local oldest = redis.call('ZRANGEBYSCORE', rate, inside, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return {'refused', text(tonumber(oldest[2]) - since)}
end
redis.call('ZREMRANGEBYSCORE', rate, '-inf', text(since))
redis.call('ZADD', rate, now, token)
redis.call('PEXPIRE', rate, window_ms)
return {'counted'}
