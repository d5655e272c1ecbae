-- Asks one worker to finish its turns, hand on its queues and end. The wish stays with its heartbeat, which reads it; the
-- signal only makes it sooner.
-- @keys beat ?tombstone
-- @args worker signals
-- Replies: asked | unknown
if tombstone and redis.call('EXISTS', tombstone) == 1 then return {'unknown'} end
if redis.call('EXISTS', beat) == 0 then return {'unknown'} end
redis.call('HSET', beat, 'wish', 'drain')
redis.call('PUBLISH', signals .. worker, 'drain')
return {'asked'}
