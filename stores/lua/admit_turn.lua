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
local state = redis.call('HMGET', context, 'run', 'fence', 'session', 'open', 'run_mid')
local run, over = state[1], false
if (run and run ~= '' and state[5] == mid) or redis.call('EXISTS', message_key(mid), outcome_key(mid)) > 0 then
  -- @include message
  local known = find_message(mid)
  if known and (known.status ~= 'ended' or known.token == token) then
    -- @include position entries view claim ticket
    local under_way = known.status == 'queued' or known.status == 'running'
    if known.token == token and under_way then
      -- A repeat of the call that made the record. It gets the turn only if it was given it in the first place: one that
      -- came out of the queue, or was taken over, is in other hands (perhaps another task's of this very worker).
      local holder = redis.call('HMGET', context, 'run_owner', 'via', 'run_fence')
      if run == known.task and state[5] == mid and holder[1] == worker and holder[2] == '' then
        return {'admitted', ticket(mid, run, holder[3])}
      end
      local place = redis.call('LPOS', queue, mid .. ':' .. known.task)
      return {'queued', now, place and place + 1 or 0, own_delivery(push_key(known.task))}
    end
    if known.digest ~= digest and reuse == 'reject' then return {'reused', known.task} end
    if under_way then return {'in_flight', known.task} end
    return {'replayed', known.task, known.reply or '', known.error or '', view(known.task, '') or {}}
  end
  over = known ~= nil
end

-- Whether one more member would be one too many for a set of members by deadline; 0 is no limit.
local function full(set, member, most)
  if tonumber(most) == 0 then return false end
  if redis.call('ZCARD', set) < tonumber(most) then return false end
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

open_list = state[4] or ' '
if named ~= '1' and tonumber(max_open) > 0 and super_doc == '' and count_open() >= tonumber(max_open) then
  return {'open_limit'}
end
-- A context that never had a turn has nothing else, either.
local waiting = state[2] and redis.call('LLEN', queue) or 0
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

if over then redis.call('DEL', message_key(mid), outcome_key(mid)) end
local limited = caller_running ~= '0' or caller_contexts ~= '0'
if index and caller_contexts ~= '0' then redis.call('ZADD', index .. ':live', now, cid) end
if index and caller_running ~= '0' then redis.call('ZADD', index .. ':busy', now, cid) end
if limited then redis.call('HSET', context, 'limited', '1') end

-- The plain case, in as few commands as it can be: the message begins a new task at once. What start_turn does, when
-- nothing of it can be there yet and nobody can know of it.
local turn = token .. ' ' .. digest .. ' ' .. quiet
local names = state[2] and {} or {'id', context_id, 'caller', caller}
if not busy and named ~= '1' and push_name == '' then
  local fence = text(tonumber(state[2] or '0') + 1)
  local first = fence .. '-1'
  if super_doc ~= '' and open_list ~= ' ' then
    -- @include index unfold task unclaimed supersede
    supersede(task, fence, super_state, super_doc)
  end
  put_open(task, true)
  redis.call('HSET', context, 'fence', fence, 'run', task, 'run_fence', fence, 'run_owner', worker, 'run_mid', mid,
    'started', now, 'via', '', 'open', open_list, unpack(names))
  redis.call('HSET', task_key(task), 'phase', 'open', 'at', now, 'state', working, 'doc', doc, 'cursor', '0-0',
    'first', first, 'last', first, 'ctx', context_id, 'cid', cid, 'created', now, 'turn', turn, 'input', input)
  redis.call('PEXPIRE', context, context_ms)
  redis.call('PEXPIRE', task_key(task), context_ms)
  list_task(task, 'open', now, working)
  enroll(task)
  settle_live(true, limited)
  return {'fresh', fence, state[3] or '', now}
end

-- @include index message outcome unfold task position entries view push claim ticket unclaimed supersede start context
if named ~= '1' then
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

local how = {joined = named == '1' and quiet ~= '1' and joined, quiet = named == '1' and quiet == '1',
  super_state = super_state, super_doc = super_doc ~= '' and super_doc, turn = turn, input = input}
if #names > 0 then redis.call('HSET', context, unpack(names)) end
local reply
if busy then
  local key = message_key(mid)
  redis.call('HSET', key, 'task', task, 'digest', digest, 'token', token, 'status', 'queued', 'attempt', 1,
    'input', input, 'asked', now)
  redis.call('PEXPIRE', key, context_ms)
  if how.super_doc then redis.call('HSET', key, 'super_state', super_state, 'super_doc', super_doc) end
  if how.quiet then redis.call('HSET', key, 'quiet', '1') end
  if how.joined then redis.call('HSET', key, 'joined', joined) end
  redis.call('RPUSH', queue, mid .. ':' .. task)
  if named ~= '1' then set_state(task, 'open', submitted) end
  local delivery = push_name ~= '' and take_delivery(push_key(task), caller .. ':' .. task) or ''
  reply = {'queued', now, waiting + 1, delivery}
else
  reply = {'admitted', ticket(mid, task, start_turn(mid, task, '', how))}
end
settle_live(true, limited)
save_open()
keep_context()
return reply
