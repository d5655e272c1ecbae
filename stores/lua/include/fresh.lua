-- The plain case, in as few commands as it can be: a new message begins a new task at once, in a context where no turn
-- runs or waits. What start_turn does, when nothing of it can be there yet; replies the same ticket.
-- Wants args: context_id mid token task digest doc input super_state super_doc working worker context_ms.
local function start_fresh(known)
  local fence = text(tonumber(known.fence or '0') + 1)
  local id = fence .. '-1'
  redis.call('HSET', context, 'id', context_id, 'caller', caller, 'fence', fence, 'run', task, 'run_fence', fence,
    'run_owner', worker, 'run_mid', mid, 'started', now, 'via', '')
  redis.call('HSET', message_key(mid), 'task', task, 'digest', digest, 'token', token, 'status', 'running', 'attempt', 1,
    'input', input, 'asked', now, 'fence', fence, 'owner', worker)
  if super_doc ~= '' then supersede(task, fence, super_state, super_doc) end
  redis.call('XADD', log_key(task), id, 'k', 'start', 'a', now, 'd', '')
  set_state(task, 'open', working, {}, 'doc', doc, 'cursor', '0-0', 'last', id, 'ctx', context_id, 'cid', cid,
    'created', now)
  redis.call('PEXPIRE', context, context_ms)
  redis.call('PEXPIRE', message_key(mid), context_ms)
  redis.call('PEXPIRE', open, context_ms)
  enroll(task)
  wake(task, 'open')
  return {task, mid, fence, input, '1', known.session or '', now,
    {working, 'open', now, context_id, doc, '0-0', id, '0-0', {{id, {'k', 'start', 'a', now, 'd', ''}}}}, '', now}
end
