-- Takes a dead letter up again: its callback's cursor goes back to before it, so that it and what came after it are
-- sent once more, in order and under the same ids; letters of what comes again are forgotten.
-- @keys push ?letters ?undelivered
-- @args name to entry signals context_ms
-- @include position unclaimed
-- Replies: retried | unknown
local letter = redis.call('HGET', push, 'l:' .. name .. ':' .. to)
local facts = redis.call('HMGET', push, 'd:' .. name, 'c:' .. name, 'owner')
if not letter or not facts[1] then return {'unknown'} end
local from = string.match(letter, '^([^|]*)|')
local head = 'l:' .. name .. ':'
for _, field in ipairs(redis.call('HKEYS', push)) do
  local event = string.sub(field, #head + 1)
  if string.sub(field, 1, #head) == head and not before(event, to) then
    redis.call('HDEL', push, field)
    redis.call('HINCRBY', push, 'letters', -1)
    if letters then redis.call('ZREM', letters, entry .. ':' .. name .. ':' .. event) end
  end
end
if before(from, facts[2]) then redis.call('HSET', push, 'c:' .. name, from) end
-- A new version: who is in the middle of a later event learns that it must begin again.
redis.call('HSET', push, 'v:' .. name, redis.call('HINCRBY', push, 'rev', 1))
ask_delivery(push, entry)
if facts[3] ~= '' then redis.call('PUBLISH', signals .. facts[3], 'push:' .. entry) end
return {'retried'}
