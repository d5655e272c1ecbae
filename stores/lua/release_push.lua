-- Lets go of a task's delivery. In good order (`seen` is the event up to which all callbacks were served, `rev` the
-- configs it knew) only where nothing is left to do: no turn runs or waits, nothing happened after `seen`, and no config
-- came or went. With `hand_on` at once, and with a hint, so that another worker goes on from the cursors.
-- @keys push task ?deliveries ?undelivered
-- @args worker fence entry seen rev hand_on context_ms
-- @include unclaimed
-- Replies: released | busy | lost
local facts = redis.call('HMGET', push, 'owner', 'fence', 'rev', 'count')
if facts[1] ~= worker or facts[2] ~= fence then
  if deliveries and facts[1] ~= worker then redis.call('SREM', deliveries, entry) end
  return {facts[1] == '' and facts[2] == fence and 'released' or 'lost'}
end
if hand_on ~= '1' then
  local at = redis.call('HMGET', task, 'phase', 'last')
  -- Of a task that is no more, nothing is left to tell.
  if at[1] and facts[3] ~= rev then return {'busy'} end
  if at[1] and tonumber(facts[4]) > 0 then
    if at[1] == 'open' or at[2] ~= seen then return {'busy'} end
    for _, field in ipairs(redis.call('HKEYS', push)) do
      if string.sub(field, 1, 2) == 'c:' then redis.call('HSET', push, field, seen) end
    end
  end
end
redis.call('HSET', push, 'owner', '')
if deliveries then redis.call('SREM', deliveries, entry) end
if hand_on == '1' then ask_delivery(push, entry) end
return {'released'}
