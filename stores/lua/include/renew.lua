-- Listings of form 2 of the records had each task twice: by time as o|<at>|<id>|<state> or c|... (ended), and by state
-- as s|<state>|<at>|<id>; a shelf had all of its context's tasks. Gives some of them the form of today, and says whether
-- there may be more. Wants the part listing.
local function renew_form(key, most)
  local found = 0
  for _, side in ipairs({'c|', 'o|'}) do
    local old = redis.call('ZRANGEBYLEX', key, '[' .. side, '(' .. side .. '}', 'LIMIT', 0, most)
    for _, member in ipairs(old) do
      local at, id, state = string.match(member, '^..(%d+)|([^|]+)|(.+)$')
      redis.call('ZREM', key, member, 's|' .. state .. '|' .. at .. '|' .. id)
      if side == 'c|' then
        redis.call('ZADD', key, 0, member_of('closed', at, id, state))
      elseif key ~= shelf then
        redis.call('ZADD', key, 0, member_of('open', at, id, state))
      end
    end
    found = math.max(found, #old)
  end
  return found == most
end
