-- A stored message becomes its context's running turn, under a fresh fence. Wants args: worker ref channel; optional
-- keys: turns (the worker's roster), workers.
local function start_turn(mid, task, via)
  local fence = text(redis.call('HINCRBY', context, 'fence', 1))
  redis.call('HSET', context, 'run', task, 'run_fence', fence, 'run_owner', worker, 'run_mid', mid, 'started', now,
    'via', via)
  redis.call('HDEL', context, 'cancel')
  redis.call('HSET', message_key(mid), 'status', 'running', 'fence', fence, 'owner', worker)
  redis.call('PEXPIRE', message_key(mid), context_ms)
  local how = redis.call('HMGET', message_key(mid), 'joined', 'quiet', 'super_state', 'super_doc')
  supersede(task, fence, how[3], how[4])
  if how[2] then
    -- A turn nobody spoke for (the cancel of an idle task): the task shows nothing until it ends.
    set_state(task, 'open', redis.call('HGET', task_key(task), 'state'))
  else
    if how[1] then record(task, fence, 1, 'message', how[1]) end
    record(task, fence, how[1] and 2 or 1, 'start', '')
    set_state(task, 'open', working)
  end
  enroll(task)
  take_delivery(push_key(task), caller .. ':' .. task)
  wake(task, 'open')
  return fence
end

-- The next turn of the queue, if any. A message whose task ended while it waited keeps that error as its outcome.
local function start_next(via)
  while true do
    local head = redis.call('LPOP', queue)
    if not head then return nil end
    local mid, task = string.match(head, '^([^:]+):(.+)$')
    local phase = redis.call('HGET', task_key(task), 'phase')
    if phase and phase ~= 'closed' then return ticket(mid, task, start_turn(mid, task, via)) end
    if redis.call('EXISTS', message_key(mid)) == 1 then close_message(mid, 'error', 'task_closed') end
  end
end
