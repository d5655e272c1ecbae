-- Gives back a context's places as its own slot ordered it: one that was reserved again since is left alone. `what` is
-- all, busy (a caller's set of contexts with a turn) or idle (then the place lapses after so long, and busy is given back).
-- @keys live ?busy
-- @args ref stamp what lapse_ms
-- @include clock
-- Replies: released
local function held(set)
  local at = redis.call('ZSCORE', set .. ':stamps', ref)
  return at and tonumber(at) <= tonumber(stamp)
end
local function drop(set)
  if not held(set) then return end
  redis.call('ZREM', set, ref)
  redis.call('ZREM', set .. ':stamps', ref)
end
if what == 'all' then drop(live) end
if what == 'idle' and held(live) then redis.call('ZADD', live, 'XX', text(now_ms + tonumber(lapse_ms)), ref) end
if busy then drop(busy) end
return {'released'}
