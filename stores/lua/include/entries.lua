-- What a log has after an id, in the form of XRANGE. See the part `unfold` for where its entries stand. Wants the
-- part position.
local function entries_after(task, log, from, last, most)
  if from == last then return {} end
  local ends = redis.call('HMGET', task, 'first', 'created', 'end_at', 'end_doc')
  if not ends[1] then
    if most then return redis.call('XRANGE', log, '(' .. from, '+', 'COUNT', most) end
    return redis.call('XRANGE', log, '(' .. from, '+')
  end
  local found = {}
  if before(from, ends[1]) then found[1] = {ends[1], {'k', 'start', 'a', ends[2], 'd', ''}} end
  if ends[3] and before(from, last) then found[#found + 1] = {last, {'k', 'status', 'a', ends[3], 'd', ends[4]}} end
  return found
end
