-- Removes a callback; one that is not there is removed already. Its dead letters stay listed. Who delivers is woken, so
-- that it makes no further attempt.
-- @keys push task
-- @args name entry signals
-- Replies: dropped | unknown
if redis.call('EXISTS', task) == 0 then return {'unknown'} end
if redis.call('HDEL', push, 'd:' .. name, 'c:' .. name, 'v:' .. name, 'n:' .. name) > 0 then
  redis.call('HINCRBY', push, 'count', -1)
  redis.call('HINCRBY', push, 'rev', 1)
  local owner = redis.call('HGET', push, 'owner')
  if owner ~= '' then redis.call('PUBLISH', signals .. owner, 'push:' .. entry) end
end
return {'dropped'}
