-- How a task leaves the listings that the part `listing` describes. Wants the part listing.
local function index_drop(key, id, phase, at, state)
  local here = redis.call('ZREM', key, member_of(phase, at, id, state))
  -- As form 2 of the records had it.
  if here == 0 then redis.call('ZREM', key, 'o|' .. at .. '|' .. id .. '|' .. state, 's|' .. state .. '|' .. at .. '|' .. id) end
  if here == 0 or phase == 'waiting' then redis.call('ZREM', key .. ':lapse', at .. '|' .. id .. '|' .. state) end
end
