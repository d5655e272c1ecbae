-- A task's callbacks, all in one hash of its slot. Per config, under a name of the server's making:
--   d:<name> its document   c:<name> its cursor   v:<name> its version (new at each put)   n:<name> its place
--   l:<name>:<event> a dead letter, `<cursor before it>|<document>`
-- and for all of them: count, rev (moves when a config comes, changes or goes), owner and fence (the delivery's claim),
-- letters. A cursor is the last event delivered; '' is before the task itself was shown.
local function put_config(push, name, doc, cursor)
  local known = redis.call('HMGET', push, 'owner', 'n:' .. name)
  local rev = redis.call('HINCRBY', push, 'rev', 1)
  if not known[1] then redis.call('HSET', push, 'owner', '', 'fence', '0') end
  if not known[2] then
    redis.call('HINCRBY', push, 'count', 1)
    redis.call('HSET', push, 'n:' .. name, rev)
  end
  redis.call('HSET', push, 'd:' .. name, doc, 'c:' .. name, cursor, 'v:' .. name, rev)
end

local function too_many(push, name, limit)
  local known = redis.call('HMGET', push, 'count', 'd:' .. name)
  return not known[2] and tonumber(known[1] or '0') >= tonumber(limit)
end
