-- Puts a dead letter on the fleet's list; the letter itself is with its task, and a list shows only those that are.
-- @keys letters
-- @args member context_ms
-- @include clock
-- Replies: listed
redis.call('ZADD', letters, 'NX', now, member)
redis.call('ZREMRANGEBYSCORE', letters, '-inf', text(now_ms - tonumber(context_ms)))
redis.call('PEXPIRE', letters, context_ms)
return {'listed'}
