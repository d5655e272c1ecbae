-- Gives a context's running turn to another holder under a new fence: the turn of a dead worker, of an admission whose
-- answer was lost, or of an agent that would not stop. The old holder can write nothing from here on. Where no turn
-- runs but some wait, the next one is started.
-- @keys context ?live ?index ?turns ?workers ?former ?ready ?deliveries ?undelivered
-- @args prefix channel caller cid ref worker owner fence
-- @const working context_ms task_ms log_ms message_ms idle_ms
-- @include clock partition shared open listing index message outcome unfold task position entries view claim ticket roster unclaimed supersede start live context
-- Replies: taken <ticket> | started <ticket> | nothing
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner', 'run_mid', 'via', 'cancel', 'attempt')
local asked = fence .. ':' .. owner
-- Whatever is found, the hint that this context waits for somebody is answered with it.
if ready then redis.call('SREM', ready, ref) end
if run[1] and run[1] ~= '' then
  if run[3] == worker and run[5] == 'over:' .. asked then return {'taken', ticket(run[4], run[1], run[2])} end
  if run[3] == worker and run[5] == 'next:' .. asked then return {'started', ticket(run[4], run[1], run[2])} end
  if run[3] ~= owner or (fence ~= '' and run[2] ~= fence) then return {'nothing'} end
  local token = text(redis.call('HINCRBY', context, 'fence', 1))
  local key = message_key(run[4])
  local again = tonumber(run[7] or redis.call('HGET', key, 'attempt') or '1') + 1
  redis.call('HSET', context, 'run_fence', token, 'run_owner', worker, 'via', 'over:' .. asked, 'attempt', again)
  -- A cancel that was asked of the former holder is asked of the new one.
  if run[6] == run[2] then redis.call('HSET', context, 'cancel', token) end
  keep_context()
  redis.call('PEXPIRE', task_key(run[1]), context_ms)
  redis.call('PEXPIRE', key, context_ms)
  -- In this order: a worker that takes a turn from itself has one roster for both.
  if former then redis.call('SREM', former, ref .. ':' .. run[1]) end
  enroll(run[1])
  -- @apart inherit
  return {'taken', ticket(run[4], run[1], token)}
end
local next = start_next('next:' .. asked)
-- Also where nothing could be started: messages of ended tasks may have been all that kept the context live.
settle_live(is_busy(), true)
if not next then return {'nothing'} end
save_open()
keep_context()
return {'started', next}
