-- A worker goes in good order: it is no longer looked for. Turns and deliveries still on its lists are left to the others as hints.
-- @keys workers beat turns deliveries
-- @args worker
-- Replies: left <turns>
redis.call('DEL', beat)
local left = redis.call('SMEMBERS', turns)
if #left == 0 and redis.call('EXISTS', deliveries) == 0 then
  redis.call('ZREM', workers, worker)
  redis.call('DEL', turns)
end
return {'left', left}
