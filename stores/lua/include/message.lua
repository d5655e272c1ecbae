-- A message's outcome, once its turn is over. Wants args: message_ms.
-- Where nothing is replayed (0) the record lingers as `ended`, out of any other admission's sight: who follows the turn
-- from elsewhere learns a direct reply or an error from it, and a repeated call is recognised by it.
local linger_ms = '60000'
local function free_message(mid)
  redis.call('HDEL', message_key(mid), 'input', 'joined', 'quiet', 'super_doc', 'super_state')
end

local function end_message(mid, ...)
  local key = message_key(mid)
  redis.call('HSET', key, 'status', message_ms == '0' and 'ended' or 'closed', ...)
  redis.call('PEXPIRE', key, message_ms == '0' and linger_ms or message_ms)
end

local function close_message(mid, ...)
  free_message(mid)
  end_message(mid, ...)
end
