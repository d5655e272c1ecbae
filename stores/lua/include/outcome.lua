-- A message's outcome, once its turn is over; `mark` and `at` are of the turn's end. Wants args: message_ms.
-- Where nothing is replayed (0) it lingers as `ended`, out of any other admission's sight: who follows the turn from
-- elsewhere learns a direct reply or an error from it, and a repeated call is recognised by it.
local function put_outcome(mid, task, digest, token, mark, failure, reply)
  local kept = message_ms ~= '0'
  local known = (kept and 'closed\n' or 'ended\n') .. task .. '\n' .. digest .. '\n' .. token .. '\n' .. mark .. '\n' .. now
    .. '\n' .. failure .. '\n' .. reply
  redis.call('SET', prefix .. 'o:' .. mid, known, 'PX', kept and message_ms or '60000')
end

-- Of a message that never got to a turn.
local function close_message(mid, failure)
  local facts = redis.call('HMGET', prefix .. 'm:' .. mid, 'task', 'digest', 'token')
  if not facts[1] then return end
  redis.call('DEL', prefix .. 'm:' .. mid)
  put_outcome(mid, facts[1], facts[2], facts[3], '', failure, '')
end
