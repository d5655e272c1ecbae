-- Accepts one message: claims (caller, context, message), judges the task it names, reserves the context, and makes it
-- the running turn or the last in the queue. Everything is checked before anything is written.
-- @keys context ?live ?index ?turns ?workers ?deliveries ?undelivered
-- @args prefix channel caller cid ref worker context_id mid token task named digest doc input joined quiet
-- @args super_state super_doc push_name push_doc push_from
-- @const working submitted context_ms task_ms log_ms message_ms idle_ms queue_limit max_contexts max_open reuse
-- @const caller_running caller_contexts caller_tasks push_limit
-- Replies: fresh <fence> <session> <at> | admitted <ticket> | queued <at> <place> <delivery> |
--          replayed <task> <reply> <error> <view> | in_flight <task> | reused <task> | unknown | mismatched | closed |
--          context_limit | queue_full | open_limit | caller_running | caller_contexts | caller_tasks |
--          too_many (callbacks of the named task)
-- @include clock partition shared open listing roster live
local message = message_key(mid)
local known = redis.call('HMGET', message, 'task', 'digest', 'status', 'token', 'fence', 'reply', 'error')
if known[1] and (known[3] ~= 'ended' or known[4] == token) then
  -- @include position entries view claim ticket
  if known[4] == token and (known[3] == 'running' or known[3] == 'queued') then
    -- A repeat of the call that made the record. It gets the turn only if it was given it in the first place: one that
    -- came out of the queue, or was taken over, is in other hands (perhaps another task's of this very worker).
    local now_running = redis.call('HMGET', context, 'run', 'run_mid', 'run_owner', 'via')
    if now_running[1] == known[1] and now_running[2] == mid and now_running[3] == worker and now_running[4] == '' then
      return {'admitted', ticket(mid, known[1], known[5])}
    end
    local place = redis.call('LPOS', queue, mid .. ':' .. known[1])
    return {'queued', now, place and place + 1 or 0, own_delivery(push_key(known[1]))}
  end
  if known[2] ~= digest and reuse == 'reject' then return {'reused', known[1]} end
  if known[3] == 'queued' or known[3] == 'running' then return {'in_flight', known[1]} end
  return {'replayed', known[1], known[6] or '', known[7] or '', view(known[1], '') or {}}
end

-- Whether one more member would be one too many for a set of members by deadline; 0 is no limit.
local function full(set, member, most)
  if tonumber(most) == 0 then return false end
  local deadline = redis.call('ZSCORE', set, member)
  if deadline and tonumber(deadline) > now_ms then return false end
  return redis.call('ZCOUNT', set, '(' .. now, '+inf') >= tonumber(most)
end

if named == '1' then
  local there = redis.call('HMGET', task_key(task), 'phase', 'cid')
  if not there[1] then return {'unknown'} end
  if there[2] ~= cid then return {'mismatched'} end
  if there[1] == 'closed' then return {'closed'} end
  if push_name ~= '' then
    -- @include push
    if too_many(push_key(task), push_name, push_limit) then return {'too_many'} end
  end
end

local state = redis.call('HMGET', context, 'run', 'fence', 'session', 'open')
local run = state[1]
open_list = state[4] or ' '
if named ~= '1' and tonumber(max_open) > 0 and super_doc == '' and count_open() >= tonumber(max_open) then
  return {'open_limit'}
end
local waiting = redis.call('LLEN', queue)
local busy = (run and run ~= '') or waiting > 0
-- A turn that cancels (quiet) gives back what the limits count, so none of them refuses it.
if busy and quiet ~= '1' and waiting >= tonumber(queue_limit) then return {'queue_full'} end
-- @together
if live and not busy and quiet ~= '1' and full(live, ref, max_contexts) then return {'context_limit'} end
if index and quiet ~= '1' then
  if not busy and full(index .. ':busy', cid, caller_running) then return {'caller_running'} end
  if not busy and full(index .. ':live', cid, caller_contexts) then return {'caller_contexts'} end
  if named ~= '1' and tonumber(caller_tasks) > 0 then
    -- @include sides
    local kept = count_kept(index)
    if kept >= tonumber(caller_tasks) then return {'caller_tasks'} end
  end
end
-- @apart room

if known[1] then redis.call('DEL', message) end
local limited = caller_running ~= '0' or caller_contexts ~= '0'
if index and caller_contexts ~= '0' then redis.call('ZADD', index .. ':live', now, cid) end
if index and caller_running ~= '0' then redis.call('ZADD', index .. ':busy', now, cid) end
if limited then redis.call('HSET', context, 'limited', '1') end

-- The plain case, in as few commands as it can be: the message begins a new task at once. What start_turn does, when
-- nothing of it can be there yet and nobody can know of it.
if not busy and named ~= '1' and push_name == '' then
  local fence = text(tonumber(state[2] or '0') + 1)
  local first = fence .. '-1'
  if super_doc ~= '' and open_list ~= ' ' then
    -- @include index unfold task unclaimed supersede
    supersede(task, fence, super_state, super_doc)
  end
  put_open(task, true)
  redis.call('HSET', context, 'id', context_id, 'caller', caller, 'fence', fence, 'run', task, 'run_fence', fence,
    'run_owner', worker, 'run_mid', mid, 'started', now, 'via', '', 'open', open_list)
  redis.call('HSET', message, 'task', task, 'digest', digest, 'token', token, 'status', 'running', 'attempt', 1,
    'input', input, 'asked', now, 'fence', fence, 'owner', worker)
  redis.call('HSET', task_key(task), 'phase', 'open', 'at', now, 'state', working, 'doc', doc, 'cursor', '0-0',
    'first', first, 'last', first, 'ctx', context_id, 'cid', cid, 'created', now)
  redis.call('PEXPIRE', context, context_ms)
  redis.call('PEXPIRE', message, context_ms)
  redis.call('PEXPIRE', task_key(task), context_ms)
  list_task(task, 'open', now, working)
  enroll(task)
  settle_live(true, limited)
  return {'fresh', fence, state[3] or '', now}
end

-- @include index message unfold task position entries view push claim ticket unclaimed supersede start context
redis.call('HSET', context, 'id', context_id, 'caller', caller)
redis.call('HSET', message, 'task', task, 'digest', digest, 'token', token, 'status', 'queued', 'attempt', 1,
  'input', input, 'asked', now)
redis.call('PEXPIRE', message, context_ms)
if super_doc ~= '' then redis.call('HSET', message, 'super_state', super_state, 'super_doc', super_doc) end
if named == '1' then
  if quiet == '1' then
    redis.call('HSET', message, 'quiet', '1')
  else
    redis.call('HSET', message, 'joined', joined)
  end
else
  redis.call('HSET', task_key(task), 'doc', doc, 'cursor', '0-0', 'last', '0-0', 'ctx', context_id, 'cid', cid,
    'created', now)
end
if push_name ~= '' then
  -- A task that was there before has told others what happened so far; its new callback is told what comes. One that
  -- comes again goes on from where it is: clients send theirs with each message, and it may not have been told all yet.
  local from = push_from
  if named == '1' then
    from = redis.call('HGET', push_key(task), 'c:' .. push_name) or redis.call('HGET', task_key(task), 'last')
  end
  put_config(push_key(task), push_name, push_doc, from)
  redis.call('PEXPIRE', push_key(task), context_ms)
end

local reply
if busy then
  redis.call('RPUSH', queue, mid .. ':' .. task)
  if named ~= '1' then set_state(task, 'open', submitted) end
  local delivery = push_name ~= '' and take_delivery(push_key(task), caller .. ':' .. task) or ''
  reply = {'queued', now, waiting + 1, delivery}
else
  reply = {'admitted', ticket(mid, task, start_turn(mid, task, ''))}
end
settle_live(true, limited)
save_open()
keep_context()
return reply
