-- Whether one position of a log comes before another. '' comes before all of them.
local function before(one, other)
  if one == '' or other == '' then return one == '' and other ~= '' end
  local fence, seq = string.match(one, '^(%d+)-(%d+)$')
  local other_fence, other_seq = string.match(other, '^(%d+)-(%d+)$')
  fence, other_fence = tonumber(fence), tonumber(other_fence)
  return fence < other_fence or (fence == other_fence and tonumber(seq) < tonumber(other_seq))
end
