-- Declares a worker dead, if its counter still is the one its observer saw: a tombstone keeps it from beating on, and
-- its turn list is handed to the observer. The list itself stays until every turn in it is settled. Who comes second gets it as well; only one can take a turn.
-- @keys workers beat turns tombstone deliveries
-- @args worker count context_ms
-- Replies: reaped <turns> | alive
local again = redis.call('EXISTS', tombstone) == 1
if not again and (redis.call('HGET', beat, 'count') or '') ~= count then return {'alive'} end
redis.call('DEL', beat)
-- Once: its age is how long the worker has been known as dead.
if not again then redis.call('SET', tombstone, '1', 'PX', context_ms) end
local left = redis.call('SMEMBERS', turns)
if #left == 0 and redis.call('EXISTS', deliveries) == 0 then redis.call('ZREM', workers, worker) end
return {'reaped', left}
