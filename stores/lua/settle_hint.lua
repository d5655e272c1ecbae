-- Removes a turn from a dead worker's list once it is settled, and the worker itself with the last thing it had.
-- @keys workers turns deliveries
-- @args worker entry
-- Replies: settled
redis.call('SREM', turns, entry)
if redis.call('EXISTS', turns, deliveries) == 0 then redis.call('ZREM', workers, worker) end
return {'settled'}
