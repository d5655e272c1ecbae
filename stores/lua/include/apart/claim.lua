-- The workers' rosters are in another slot: who takes a delivery is on them already, or puts itself there.
own_delivery = function(push)
  if serves ~= '1' then return '' end
  local claim = redis.call('HMGET', push, 'owner', 'fence')
  return claim[1] == worker and claim[2] or ''
end

take_delivery = function(push)
  if serves ~= '1' then return '' end
  if redis.call('HGET', push, 'owner') ~= '' then return own_delivery(push) end
  local fence = text(redis.call('HINCRBY', push, 'fence', 1))
  redis.call('HSET', push, 'owner', worker)
  return fence
end
