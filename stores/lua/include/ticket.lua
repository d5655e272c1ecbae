-- What a worker needs to run a turn that is its own.
local function ticket(mid, task, fence)
  local asked = redis.call('HMGET', message_key(mid), 'input', 'attempt', 'asked')
  local session = redis.call('HGET', context, 'session') or ''
  return {task, mid, fence, asked[1] or '', asked[2] or '1', session, redis.call('HGET', context, 'started'),
    view(task, ''), own_delivery(push_key(task)), asked[3] or '0'}
end
