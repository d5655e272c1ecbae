-- A set that many share lives twice as long as what is in it has to, so that most writers need only look.
-- Answers whether it was renewed, as a new set is.
local function keep_shared(key, ms)
  if redis.call('PTTL', key) >= tonumber(ms) then return false end
  redis.call('PEXPIRE', key, text(2 * tonumber(ms)))
  return true
end
