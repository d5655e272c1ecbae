-- What a worker needs to run a turn that is its own. Wants the part message.
local function ticket(mid, task, fence)
  local facts = redis.call('HMGET', context, 'session', 'started', 'attempt')
  local own = redis.call('HMGET', task_key(task), 'turn', 'input')
  local asked = {own[2], facts[2]}
  if not string.match(own[1] or '', TURN) then asked = redis.call('HMGET', message_key(mid), 'input', 'asked') end
  return {task, mid, fence, asked[1] or '', facts[3] or '1', facts[1] or '', facts[2], view(task, ''),
    own_delivery(push_key(task)), asked[2] or '0'}
end
