-- Reads a task's callbacks with their cursors and claim, and how far the task itself has come.
-- @keys push task
-- Replies: configs <phase> <last> <fields and values of the hash> | unknown
local facts = redis.call('HMGET', task, 'phase', 'last')
if not facts[1] then return {'unknown'} end
return {'configs', facts[1], facts[2], redis.call('HGETALL', push)}
