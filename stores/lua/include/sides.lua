-- The states that tasks on one side of a listing (`a|` or `e|`) are in, found from each to the next. They are the server's
-- words, a handful.
local function states_of(key, side)
  local states, from = {}, '[' .. side
  for place = 1, 1000 do
    -- '}' sorts behind every letter, digit and '|' that can follow.
    local member = redis.call('ZRANGEBYLEX', key, from, '(' .. side .. '}', 'LIMIT', 0, 1)[1]
    if not member then break end
    states[place] = string.match(member, '^..([^|]+)')
    from = '(' .. side .. states[place] .. '|}'
  end
  return states
end

-- How many tasks of a caller are kept: those that have not ended and not lapsed, and those that ended not long ago.
local function count_kept(key)
  local floor = text(now_ms - tonumber(task_ms))
  local kept = redis.call('ZLEXCOUNT', key, '[a|', '(a|}') - redis.call('ZCOUNT', key .. ':lapse', '-inf', now)
  -- As form 2 of the records had them.
  kept = kept + redis.call('ZLEXCOUNT', key, '[o|', '(o|}') + redis.call('ZLEXCOUNT', key, '[c|' .. floor, '(c|}')
  for _, state in ipairs(states_of(key, 'e|')) do
    kept = kept + redis.call('ZLEXCOUNT', key, '[e|' .. state .. '|' .. floor, '(e|' .. state .. '|}')
  end
  return kept
end
