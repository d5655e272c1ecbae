-- A message becomes its context's running turn, under a fresh fence. `how` has joined, quiet, super_state and super_doc, as
-- of Admission, and what a message that did not wait keeps with its task (turn, input). Wants args: worker ref channel; optional
-- keys: turns (the worker's roster), workers.
local function start_turn(mid, task, via, how)
  local fence = text(redis.call('HINCRBY', context, 'fence', 1))
  redis.call('HSET', context, 'run', task, 'run_fence', fence, 'run_owner', worker, 'run_mid', mid, 'started', now,
    'via', via)
  redis.call('HDEL', context, 'cancel', 'attempt')
  if how.turn then redis.call('HSET', task_key(task), 'turn', how.turn, 'input', how.input) end
  supersede(task, fence, how.super_state, how.super_doc)
  if how.quiet then
    -- A turn nobody spoke for (the cancel of an idle task): the task shows nothing until it ends.
    set_state(task, 'open', redis.call('HGET', task_key(task), 'state'))
  else
    if how.joined then record(task, fence, 1, 'message', how.joined) end
    record(task, fence, how.joined and 2 or 1, 'start', '')
    set_state(task, 'open', working)
  end
  enroll(task)
  take_delivery(push_key(task), caller .. ':' .. task)
  wake(task, 'open')
  return fence
end

-- The same for one that waited.
local function start_queued(mid, task, via)
  local key = message_key(mid)
  local known = redis.call('HMGET', key, 'joined', 'quiet', 'super_state', 'super_doc', 'attempt')
  local fence = start_turn(mid, task, via,
    {joined = known[1], quiet = known[2], super_state = known[3], super_doc = known[4]})
  if known[5] and known[5] ~= '1' then redis.call('HSET', context, 'attempt', known[5]) end
  redis.call('HSET', key, 'status', 'running')
  redis.call('PEXPIRE', key, context_ms)
  return fence
end

-- The next turn of the queue, if any. A message whose task ended while it waited keeps that error as its outcome.
local function start_next(via)
  while true do
    local head = redis.call('LPOP', queue)
    if not head then return nil end
    local mid, task = string.match(head, '^([^:]+):(.+)$')
    local phase = redis.call('HGET', task_key(task), 'phase')
    if phase and phase ~= 'closed' then return ticket(mid, task, start_queued(mid, task, via)) end
    close_message(mid, 'task_closed')
  end
end
