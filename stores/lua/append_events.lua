-- Adds a running turn's events to its task's log, and now and then a folded document so that the log can be trimmed.
-- A repeat of the same sequence numbers adds nothing and answers the same. `heard` says whether anybody listened to this
-- call's wake-up; who passes it on with the next call (`carry`) has its events sent along, so that followers elsewhere
-- need not read them. These are copies: what is true is in the log.
-- @keys context ?index
-- @args prefix channel caller cid worker mid task fence seq doc keep carry ...entries
-- @const context_ms task_ms log_ms
-- Replies: appended <at> <cancel> <heard> | lost
-- @include clock
local run = redis.call('HMGET', context, 'run', 'run_fence', 'run_owner', 'run_mid', 'cancel', 'open')
if run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[4] ~= mid then return {'lost'} end
local facts, log = prefix .. 't:' .. caller .. ':' .. task, prefix .. 'e:' .. caller .. ':' .. task
-- First a write that takes no memory, of a field that is not there: Redis judges that at a script's first write only, and
-- when it is full, what runs must be able to end.
redis.call('HDEL', context, '')
local places = redis.call('HMGET', facts, 'last', 'first')
local at_fence, at_seq = string.match(places[1] or '0-0', '^(%d+)-(%d+)$')
at_fence, at_seq = tonumber(at_fence), tonumber(at_seq)
local newer = at_fence < tonumber(fence)
local added, state, heard = false, nil, 0
local last = tonumber(seq)
local all_new = newer or (at_fence == tonumber(fence) and at_seq < last)
for i = 1, #entries, 3 do
  -- What is there already came with an earlier call that is repeated.
  if newer or (at_fence == tonumber(fence) and at_seq < last) then
    if places[2] and not added then
      -- @include partition unfold
      unfold(task)
    end
    redis.call('XADD', log, fence .. '-' .. last, 'k', entries[i], 'a', now, 'd', entries[i + 2])
    added = true
    if entries[i + 1] ~= '' then state = entries[i + 1] end
  end
  last = last + 1
end
if added then
  redis.call('HSET', facts, 'last', fence .. '-' .. (last - 1))
  if state then
    -- Most events are chunks, and need nothing of all this.
    -- @include partition shared open listing index unfold task
    open_list = run[6] or ' '
    set_state(task, 'open', state)
    save_open()
  end
  if doc ~= '' then
    local cursor = fence .. '-' .. (last - 1)
    redis.call('HSET', facts, 'doc', doc, 'cursor', cursor)
    if redis.call('XLEN', log) > tonumber(keep) then
      redis.call('XTRIM', log, 'MAXLEN', '=', keep)
      local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)
      local trimmed = cursor
      if first[1] then
        local f, s = string.match(first[1][1], '^(%d+)-(%d+)$')
        -- Everything before the first entry left is gone; (first - 1) is the oldest cursor that still has no gap.
        trimmed = f .. '-' .. text(tonumber(s) - 1)
      end
      redis.call('HSET', facts, 'trimmed', trimmed)
    end
  end
  -- A thousandth of its time is no loss.
  if redis.call('PTTL', log) < tonumber(context_ms) * 0.999 then redis.call('PEXPIRE', log, context_ms) end
  local word = carry == '1' and all_new and table.concat({'events', fence, seq, now, unpack(entries)}, '\n') or 'open'
  heard = redis.call('PUBLISH', channel .. task, #word <= 65536 and word or 'open')
end
return {'appended', now, run[5] == fence and 1 or 0, heard}
