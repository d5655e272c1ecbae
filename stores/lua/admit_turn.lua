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
-- A function costs something at each call that makes it, also where nobody calls it: those of the rarer cases are made
-- where they are needed.
-- @include clock
local facts = redis.call('HMGET', context, 'run', 'fence', 'session', 'open', 'run_mid')
local run, over = facts[1], false
if run == '' then run = nil end
if (run and facts[5] == mid) or redis.call('EXISTS', prefix .. 'm:' .. mid, prefix .. 'o:' .. mid) > 0 then
  -- @include partition message
  local known = find_message(mid)
  if known and (known.status ~= 'ended' or known.token == token) then
    -- @include position entries view claim ticket
    local under_way = known.status == 'queued' or known.status == 'running'
    if known.token == token and under_way then
      -- A repeat of the call that made the record. It gets the turn only if it was given it in the first place: one that
      -- came out of the queue, or was taken over, is in other hands (perhaps another task's of this very worker).
      local holder = redis.call('HMGET', context, 'run_owner', 'via', 'run_fence')
      if run == known.task and facts[5] == mid and holder[1] == worker and holder[2] == '' then
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

if named == '1' then
  -- @include partition
  local there = redis.call('HMGET', task_key(task), 'phase', 'cid')
  if not there[1] then return {'unknown'} end
  if there[2] ~= cid then return {'mismatched'} end
  if there[1] == 'closed' then return {'closed'} end
  if push_name ~= '' then
    -- @include push
    if too_many(push_key(task), push_name, push_limit) then return {'too_many'} end
  end
end

local opened = facts[4] or ' '
if opened ~= ' ' and named ~= '1' and max_open ~= '0' and super_doc == '' then
  local _, count = string.gsub(opened, '%S+', '')
  if count >= tonumber(max_open) then return {'open_limit'} end
end
-- A context that never had a turn has nothing else, either.
local waiting = facts[2] and redis.call('LLEN', prefix .. 'q:' .. cid) or 0
local busy = run or waiting > 0
-- A turn that cancels (quiet) gives back what the limits count, so none of them refuses it.
if busy and quiet ~= '1' and waiting >= tonumber(queue_limit) then return {'queue_full'} end
-- @together
if quiet ~= '1' then
  local limits = caller_running ~= '0' or caller_contexts ~= '0' or caller_tasks ~= '0'
  if limits or (not busy and max_contexts ~= '0' and redis.call('ZCARD', live) >= tonumber(max_contexts)) then
    -- Whether one more member would be one too many for a set of members by deadline; 0 is no limit.
    local function full(set, member, most)
      if tonumber(most) == 0 then return false end
      local deadline = redis.call('ZSCORE', set, member)
      if deadline and tonumber(deadline) > now_ms then return false end
      return redis.call('ZCOUNT', set, '(' .. now, '+inf') >= tonumber(most)
    end
    if not busy and full(live, ref, max_contexts) then return {'context_limit'} end
    if not busy and full(index .. ':busy', cid, caller_running) then return {'caller_running'} end
    if not busy and full(index .. ':live', cid, caller_contexts) then return {'caller_contexts'} end
    if named ~= '1' and caller_tasks ~= '0' then
      -- @include sides
      if count_kept(index) >= tonumber(caller_tasks) then return {'caller_tasks'} end
    end
  end
end
-- @apart room

if over then redis.call('DEL', prefix .. 'm:' .. mid, prefix .. 'o:' .. mid) end
local limited = caller_running ~= '0' or caller_contexts ~= '0'
if index and caller_contexts ~= '0' then redis.call('ZADD', index .. ':live', now, cid) end
if index and caller_running ~= '0' then redis.call('ZADD', index .. ':busy', now, cid) end
if limited then redis.call('HSET', context, 'limited', '1') end
local turn = token .. ' ' .. digest .. ' ' .. quiet
local names = facts[2] and {} or {'id', context_id, 'caller', caller}

-- The plain case, in as few commands as it can be: the message begins a new task at once. What start_turn does, when
-- nothing of it can be there yet and nobody can know of it.
if not busy and named ~= '1' and push_name == '' then
  local fence = facts[2] and text(tonumber(facts[2]) + 1) or '1'
  local first = fence .. '-1'
  if super_doc ~= '' and opened ~= ' ' then
    -- @include partition shared open listing index unfold task unclaimed supersede
    open_list = opened
    supersede(task, fence, super_state, super_doc)
    opened = open_list
  end
  local key = prefix .. 't:' .. caller .. ':' .. task
  redis.call('HSET', context, 'fence', fence, 'run', task, 'run_fence', fence, 'run_owner', worker, 'run_mid', mid,
    'started', now, 'via', '', 'open', opened .. task .. ' ', unpack(names))
  redis.call('HSET', key, 'phase', 'open', 'at', now, 'state', working, 'doc', doc, 'cursor', '0-0', 'first', first,
    'last', first, 'ctx', context_id, 'cid', cid, 'created', now, 'turn', turn, 'input', input)
  redis.call('PEXPIRE', context, context_ms)
  redis.call('PEXPIRE', key, context_ms)
  -- @together
  -- @include shared
  redis.call('ZADD', index, 0, 'a|' .. working .. '|' .. now .. '|' .. task)
  keep_shared(index, context_ms)
  redis.call('SADD', turns, ref .. ':' .. task)
  if keep_shared(turns, context_ms) then
    -- As the part roster says.
    redis.call('ZADD', workers, 'NX', now, worker)
    redis.call('PEXPIRE', workers, context_ms)
  end
  redis.call('ZADD', live, text(now_ms + tonumber(context_ms)), ref)
  keep_shared(live, context_ms)
  if limited then
    -- @include open live
    open_list = opened
    settle_live(true, true)
  end
  -- @apart began
  return {'fresh', fence, facts[3] or '', now}
end

-- @include partition shared open listing roster live
open_list = opened
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
