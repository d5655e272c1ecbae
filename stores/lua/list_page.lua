-- One page of a listing, newest first, with the exact number of matches: of a caller's index, or of a context, whose
-- listing has the tasks that have ended, beside its own list of open ones. `floor` is the oldest time wanted, `before`
-- the position (`<at>|<id>`) the former page ended at.
-- @keys list ?context
-- @args prefix caller state floor before size context_ms task_ms
-- @include clock shared
local shelf = context and list
local index = nil -- of a caller: nothing is listed here
-- @include listing sides renew prune
-- Replies: page <total> <`at|id|state`s> <more> | again (much had lapsed, and one script must not take long over it)
if index_prune(list, 500) then return {'again'} end
local most = tonumber(size)
local found, total = {}, 0
for _, side in ipairs(context and {'e|'} or {'a|', 'e|'}) do
  for _, name in ipairs(state ~= '' and {state} or states_of(list, side)) do
    local head = side .. name .. '|'
    local low, high = '[' .. head .. floor, '(' .. head .. '}'
    total = total + redis.call('ZLEXCOUNT', list, low, high)
    if before ~= '' then high = '(' .. head .. before end
    for _, member in ipairs(redis.call('ZREVRANGEBYLEX', list, high, low, 'LIMIT', 0, most + 1)) do
      found[#found + 1] = string.sub(member, #head + 1) .. '|' .. name
    end
  end
end
if context then
  for task in string.gmatch(redis.call('HGET', context, 'open') or '', '%S+') do
    local facts = redis.call('HMGET', prefix .. 't:' .. caller .. ':' .. task, 'phase', 'at', 'state')
    if facts[1] and facts[1] ~= 'closed' and (state == '' or facts[3] == state) and facts[2] >= floor then
      total = total + 1
      local place = facts[2] .. '|' .. task
      if before == '' or place < before then found[#found + 1] = place .. '|' .. facts[3] end
    end
  end
end
table.sort(found, function(a, b) return a > b end)
local page = {}
for i = 1, math.min(#found, most) do page[i] = found[i] end
return {'page', total, page, #found > most and 1 or 0}
