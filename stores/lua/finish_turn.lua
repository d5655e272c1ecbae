-- Ends a running turn: its last events, document, session, message record and context, and starts the context's next
-- queued turn on the same worker, or leaves a hint for the others when this one takes no more.
-- A repeat answers `finished` again with the same next turn; any other writer is told `lost`.
-- @keys context ?live ?index ?turns ?workers ?ready ?deliveries ?undelivered
-- @args prefix channel caller cid ref worker mid task fence seq state phase doc session_changed session reply take_next ...entries
-- @const working context_ms task_ms log_ms message_ms idle_ms
-- Replies: finished <at> <ticket or nothing> | lost <state>
-- A function costs something at each call that makes it, also where nobody calls it: those of the rarer cases are made
-- where they are needed.
-- @include clock
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner', 'via', 'run_mid', 'cancel', 'attempt', 'open', 'limited', 'started')
local key = prefix .. 't:' .. caller .. ':' .. task
local old = redis.call('HMGET', key, 'phase', 'at', 'state', 'last', 'first', 'turn')
local token, digest = string.match(old[6] or '', '^(%S+) (%S*) %d$')
local mark = fence .. ':' .. worker
local ours = run[1] == task and run[2] == fence and run[3] == worker and run[5] == mid
-- The turn's beginning renewed the context; only one that took a while has to do so again.
local long = now_ms - tonumber(run[10] or '0') > tonumber(context_ms) / 1000
-- One turn in sixteen, by a random digit of its task's id, takes what has lapsed out of the sets it shares with others.
local prunes = string.sub(task, 18, 18) == '0'

-- The plain case, in as few commands as it can be: a turn that began at once, said nothing on its way, and is all there is
-- of its context, closes its task. What the rest of this script does, where nothing else has to be looked after.
if ours and token and phase == 'closed' and reply == '' and old[5] == old[4] and #entries == 2 and entries[1] == 'status'
  and run[8] == ' ' .. task .. ' ' and not (run[6] or run[7] or run[9] or long)
  and redis.call('EXISTS', prefix .. 'q:' .. cid) == 0 then
  -- @include shared
  local last, line = fence .. '-' .. seq, state .. '|' .. now .. '|' .. task
  local shelf, push = prefix .. 'x:' .. cid, prefix .. 'p:' .. caller .. ':' .. task
  -- First a write that takes no memory, see below.
  -- @together
  redis.call('SREM', turns, ref .. ':' .. task)
  redis.call('ZREM', live, ref)
  -- In this order the index is never empty, so that it keeps the time to live that the turn's beginning gave it.
  redis.call('ZADD', index, 0, 'e|' .. line)
  redis.call('ZREM', index, 'a|' .. old[3] .. '|' .. old[2] .. '|' .. task)
  -- @apart ended
  redis.call('HSET', key, 'phase', phase, 'at', now, 'state', state, 'doc', doc, 'cursor', last, 'last', last,
    'turn', mark, 'input', '', 'end_at', now, 'end_doc', entries[2])
  redis.call('PEXPIRE', key, task_ms)
  redis.call('ZADD', shelf, 0, 'e|' .. line)
  keep_shared(shelf, task_ms)
  -- @include outcome
  put_outcome(mid, task, digest, token, mark, '', '')
  if session_changed == '1' then
    redis.call('HSET', context, 'run', '', 'open', ' ', 'session', session)
  else
    redis.call('HSET', context, 'run', '', 'open', ' ')
  end
  if redis.call('PEXPIRE', push, task_ms) == 1 then
    -- @include unclaimed
    ask_delivery(push, caller .. ':' .. task)
  end
  if prunes then
    -- @include listing sides renew prune
    index_prune(shelf, 64)
    -- @together
    index_prune(index, 64)
    redis.call('ZREMRANGEBYSCORE', live, '-inf', now)
    -- @apart nothing
  end
  redis.call('PUBLISH', channel .. task, phase)
  return {'finished', now}
end

-- @include partition shared open listing index message outcome unfold task unclaimed live context
if not ours then
  -- The message keeps the mark, too: a direct reply leaves no task, and a task that goes on gets its next turn's.
  local known = find_message(mid) or {}
  if old[6] ~= mark and known.mark ~= mark then return {'lost', old[3] or ''} end
  local answer = {'finished', known.mark == mark and known.at or old[2]}
  if run[1] ~= '' and run[4] == mark and run[3] == worker then
    -- @include position entries view claim ticket
    answer[3] = ticket(run[5], run[1], run[2])
  end
  return answer
end

-- First a write that takes no memory: Redis judges that at a script's first write only, and when it is full, ending
-- turns is what must still work.
if not token then
  token, digest = unpack(redis.call('HMGET', message_key(mid), 'token', 'digest'))
  redis.call('DEL', message_key(mid))
end
if turns then redis.call('SREM', turns, ref .. ':' .. task) end
if run[6] or run[7] or not turns then redis.call('HDEL', context, 'cancel', 'attempt') end
open_list = run[8] or ' '
local last, at, ends = old[4] or '0-0', tonumber(seq), {}
if reply ~= '' then
  entries = {}
elseif old[5] == last and #entries == 2 and entries[1] == 'status' then
  last = fence .. '-' .. seq
  ends = {'end_at', now, 'end_doc', entries[2]}
  entries = {}
elseif old[5] and #entries > 0 then
  unfold(task)
  old[5] = nil
end
for i = 1, #entries, 2 do
  last = add_entry(task, last, fence, at, entries[i], entries[i + 1])
  at = at + 1
end
if reply ~= '' then
  -- A direct Message: there never was a task as far as the caller can see.
  unlist(task, old)
  put_open(task, false)
  redis.call('DEL', task_key(task), log_key(task), push_key(task))
else
  local called = set_state(task, phase, state, old, 'doc', doc, 'cursor', last, 'last', last, 'turn', mark, 'input', '',
    unpack(ends))
  if called then ask_delivery(push_key(task), caller .. ':' .. task) end
end
-- One that was lost meanwhile is not known any more.
if token then put_outcome(mid, task, digest, token, mark, '', reply) end
if session_changed == '1' then
  redis.call('HSET', context, 'run', '', 'open', open_list, 'session', session)
else
  redis.call('HSET', context, 'run', '', 'open', open_list)
end
open_changed = false
if long then keep_context() end

local answer = {'finished', now}
local busy = false
if redis.call('EXISTS', queue) == 1 then
  if take_next == '1' then
    -- @include position entries view claim ticket roster supersede start
    answer[3] = start_next(mark)
    busy = answer[3] ~= nil
  else
    busy = true
    if ready then
      redis.call('SADD', ready, ref)
      redis.call('PEXPIRE', ready, context_ms)
    end
  end
end
settle_live(busy, run[9] == '1')
if busy then keep_context() end
for other in string.gmatch(open_list, '%S+') do
  redis.call('PEXPIRE', task_key(other), context_ms)
  redis.call('PEXPIRE', log_key(other), context_ms)
  redis.call('PEXPIRE', push_key(other), context_ms)
  -- @together
  if index then
    local facts = redis.call('HMGET', task_key(other), 'phase', 'at', 'state')
    if facts[1] == 'waiting' then index_keep(index, other, facts[2], facts[3]) end
  end
  -- @apart keep
end
save_open()
if prunes then
  -- @include sides renew prune
  index_prune(shelf, 64)
  if index then index_prune(index, 64) end
  if live then redis.call('ZREMRANGEBYSCORE', live, '-inf', now) end
end
wake(task, reply ~= '' and 'gone' or phase)
return answer
