-- A set that many contexts share lives twice as long as what is in it has to, so that most writers need only look.
-- Wants: context_ms. Answers whether it was renewed, as a new set is.
local function keep_shared(key)
  if redis.call('PTTL', key) >= tonumber(context_ms) then return false end
  redis.call('PEXPIRE', key, text(2 * tonumber(context_ms)))
  return true
end

