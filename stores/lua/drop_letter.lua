-- Forgets one dead letter for good; one that is gone is forgotten already.
-- @keys push ?letters
-- @args name to entry
-- Replies: dropped | unknown
if letters then redis.call('ZREM', letters, entry .. ':' .. name .. ':' .. to) end
if redis.call('HDEL', push, 'l:' .. name .. ':' .. to) == 0 then return {'unknown'} end
redis.call('HINCRBY', push, 'letters', -1)
return {'dropped'}
