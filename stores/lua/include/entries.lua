-- What a log has after an id, in the form of XRANGE. See the part `task` for where its entries stand.
local function is_later(id, than)
  local fence, seq = string.match(id, '^(%d+)-(%d+)$')
  local than_fence, than_seq = string.match(than, '^(%d+)-?(%d*)$')
  if fence ~= than_fence then return tonumber(fence) > tonumber(than_fence) end
  return tonumber(seq) > (tonumber(than_seq) or 0)
end

local function entries_after(task, log, from, last, most)
  if from == last then return {} end
  local ends = redis.call('HMGET', task, 'first', 'created', 'end_at', 'end_doc')
  if not ends[1] then
    if most then return redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', most) end
    return redis.call('XRANGE', log, '(' .. from, '+')
  end
  local found = {}
  if is_later(ends[1], from) then found[1] = {ends[1], {'k', 'start', 'a', ends[2], 'd', ''}} end
  if ends[3] and is_later(last, from) then found[#found + 1] = {last, {'k', 'status', 'a', ends[3], 'd', ends[4]}} end
  return found
end
