-- One page of a listing index, newest first, with the exact number of matches. `floor` is the oldest time wanted,
-- `before` the position (`<at>|<id>`) the former page ended at. Without a state, open and closed tasks are merged.
-- @keys list
-- @args state floor before size task_ms
-- @include clock index
-- Replies: page <total> <`at|id|state`s> <more> | again (much had lapsed, and one script must not take long over it)
if index_prune(list, task_ms, 500) then return {'again'} end
local want = tonumber(size) + 1
local function range(head)
  local low = '[' .. head .. floor
  -- '}' sorts behind every digit, '|' and letter that can follow.
  local high = before == '' and '(' .. head .. '}' or '(' .. head .. before
  return redis.call('ZREVRANGEBYLEX', list, high, low, 'LIMIT', 0, want),
    redis.call('ZLEXCOUNT', list, low, '(' .. head .. '}')
end
local found, total = {}, 0
if state ~= '' then
  local members, count = range('s|' .. state .. '|')
  total = count
  for _, member in ipairs(members) do
    local at, id = string.match(member, '|(%d+)|([^|]+)$')
    found[#found + 1] = at .. '|' .. id .. '|' .. state
  end
else
  for _, side in ipairs({'o|', 'c|'}) do
    local members, count = range(side)
    total = total + count
    for _, member in ipairs(members) do
      found[#found + 1] = string.sub(member, 3)
    end
  end
  table.sort(found, function(a, b) return a > b end)
end
local page = {}
for i = 1, math.min(#found, tonumber(size)) do page[i] = found[i] end
return {'page', total, page, #found > tonumber(size) and 1 or 0}
