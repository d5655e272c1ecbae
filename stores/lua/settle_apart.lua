-- Says that what a context owed to other slots was done (pairs of field and value, as they were noted), and orders its
-- places given back where nothing keeps them: only here, in the context's own slot, after it was seen not live, and never
-- while something is owed, because its place in the set of live contexts is how the sweep finds that.
-- Wants the stamps that who asks has seen in the sets, '' for none.
-- @keys context
-- @args prefix cid context_ms seen own_seen ...done
-- Replies: busy|idle|free <what is still owed> <stamp to release> <own stamp> <running task> <its owner> <queue waits>
local book = prefix .. 'b:' .. cid
for i = 1, #done, 2 do
  if redis.call('HGET', book, done[i]) == done[i + 1] then redis.call('HDEL', book, done[i]) end
end
local state = redis.call('HMGET', context, 'run', 'run_owner', 'open')
local running = state[1] and state[1] ~= ''
local waits = not running and redis.call('EXISTS', prefix .. 'q:' .. cid) == 1
-- Somebody runs the queue, or there is none: nobody need be told of it any more.
if not waits then redis.call('HDEL', book, 'r') end
local facts, owed = {}, {}
local fields = redis.call('HGETALL', book)
for i = 1, #fields, 2 do
  if fields[i] == 'r' or string.match(fields[i], '^[tu]:') then
    owed[#owed + 1], owed[#owed + 2] = fields[i], fields[i + 1]
  else
    facts[fields[i]] = fields[i + 1]
  end
end
local function greatest(...)
  local most = 0
  for _, value in ipairs({...}) do most = math.max(most, tonumber(value) or 0) end
  return most > 0 and string.format('%.0f', most) or ''
end
local busy = running or waits
local live = busy or (state[3] and state[3] ~= ' ')
local word, stamp, own = 'busy', '', ''
if not busy then
  word = 'idle'
  stamp = greatest(facts.stamp or '0', seen ~= '' and seen or '0')
  own = greatest(facts.own or '0', own_seen ~= '' and own_seen or '0')
  if own ~= '' then redis.call('HSET', book, 'own_busy', greatest(own, facts.own_busy or '0')) end
end
if not live then
  if #owed == 0 then
    word = 'free'
    if stamp ~= '' then redis.call('HSET', book, 'released', greatest(stamp, facts.released or '0')) end
    if own ~= '' then redis.call('HSET', book, 'own_live', greatest(own, facts.own_live or '0')) end
  end
  -- Longer than any call is under way that reserved before.
  redis.call('PEXPIRE', book, #owed == 0 and 600000 or context_ms)
elseif redis.call('EXISTS', book) == 1 then
  redis.call('PEXPIRE', book, context_ms)
end
return {word, owed, stamp, own, running and state[1] or '', running and state[2] or '', waits and 1 or 0}
