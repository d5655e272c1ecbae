end

-- The greatest stamps are kept whatever the answer is, before anything else is: what is given back later covers them.
local facts = redis.call('HMGET', book, 'stamp', 'released', 'own', 'own_live', 'own_busy', 'rev')
local function number(value) return tonumber(value or '0') or 0 end
local function turn_is_there()
  local run = redis.call('HGET', context, 'run')
  return (run and run ~= '') or redis.call('EXISTS', prefix .. 'q:' .. cid) == 1
end
local function place_is_kept()
  return turn_is_there() or (redis.call('HGET', context, 'open') or ' ') ~= ' '
end
local function digits(value) return string.format('%.0f', value) end

local again
if stamp ~= '' and number(stamp) <= number(facts[2]) and not place_is_kept() then again = {'reserve_again', facts[2], '0'} end
if not again and own ~= '' then
  if number(own) <= number(facts[4]) and not place_is_kept() then again = {'reserve_again', '0', facts[4]} end
  if number(own) <= number(facts[5]) and not turn_is_there() then again = {'reserve_again', '0', facts[5]} end
end
local reply = again or operation()

local wrote = {}
if stamp ~= '' and number(stamp) > number(facts[1]) then wrote[1], wrote[2] = 'stamp', stamp end
if own ~= '' and number(own) > number(facts[3]) then wrote[#wrote + 1], wrote[#wrote + 2] = 'own', own end
local busy = turn_is_there()
local there = busy or place_is_kept()
-- Nobody runs a queue that a worker left.
if redis.call('EXISTS', prefix .. 'q:' .. cid) == 1 and (redis.call('HGET', context, 'run') or '') == '' then
  owe('r')
end
local dues = {}
if owes then
  local clock = redis.call('TIME')
  -- Above all before it also where a failover lost the last ones.
  local rev = digits(math.max(number(facts[6]) + 1, tonumber(clock[1]) * 1000000 + tonumber(clock[2])))
  wrote[#wrote + 1], wrote[#wrote + 2] = 'rev', rev
  for field, note in pairs(owed) do
    local value = rev
    if note ~= true then
      value = rev .. ' ' .. note.is
      for was in pairs(note.was) do
        if was ~= note.is then value = value .. ' ' .. was end
      end
    end
    wrote[#wrote + 1], wrote[#wrote + 2] = field, value
    dues[#dues + 1], dues[#dues + 2] = field, value
  end
end
if #wrote > 0 then
  redis.call('HSET', book, unpack(wrote))
  redis.call('PEXPIRE', book, context_ms)
end
return {reply, dues, busy and 1 or 0, there and 1 or 0}
