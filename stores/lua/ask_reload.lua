-- Asks the whole fleet to load its assistant again: every worker sees the new generation at its next beat.
-- @keys generation
-- @args asked context_ms
-- Replies: asked
redis.call('SET', generation, asked, 'PX', context_ms)
return {'asked'}
