-- Gives back a turn that its worker can't run as well as another one could: it is the first of its context's queue again,
-- with a hint that anybody follows. For so long since the first time it was given back; then whoever has it keeps it, and
-- so does the worker of a turn whose cancel was asked for. A repeat answers the same.
-- @keys context ?turns ?ready
-- @args prefix channel caller cid ref worker mid task fence bound_ms
-- @const context_ms
-- @include clock partition message
-- Replies: passed | kept | lost
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner', 'run_mid', 'cancel', 'attempt', 'started')
local mark, key = fence .. ':' .. worker, message_key(mid)
local known = redis.call('HMGET', key, 'passed', 'passed_by')
if run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[4] ~= mid then
  return {known[2] == mark and 'passed' or 'lost'}
end
if run[5] == fence then return {'kept'} end
if known[1] and now_ms - tonumber(known[1]) >= tonumber(bound_ms) then return {'kept'} end
redis.call('LPUSH', queue, mid .. ':' .. task)
redis.call('PEXPIRE', queue, context_ms)
redis.call('HSET', key, 'status', 'queued', 'attempt', run[6] or '1', 'passed', known[1] or now, 'passed_by', mark)
local own = redis.call('HMGET', task_key(task), 'turn', 'input')
local token, digest, quiet = string.match(own[1] or '', TURN)
if token then
  redis.call('HSET', key, 'task', task, 'digest', digest, 'token', token, 'input', own[2], 'asked', run[7])
  if quiet == '1' then redis.call('HSET', key, 'quiet', '1') end
  redis.call('HDEL', task_key(task), 'turn', 'input')
end
redis.call('PEXPIRE', key, context_ms)
-- What its beginning wrote is in the logs, and must not be written again by the next one.
redis.call('HDEL', key, 'joined', 'super_doc', 'super_state')
redis.call('HDEL', context, 'attempt')
redis.call('HSET', context, 'run', '')
if turns then redis.call('SREM', turns, ref .. ':' .. task) end
if ready then
  redis.call('SADD', ready, ref)
  redis.call('PEXPIRE', ready, context_ms)
end
return {'passed'}
