-- Shows tasks in their caller's index as their contexts' slots noted it: triples of task, revision and places, the first
-- of which is where it stands now (`gone`: nowhere), the others where it stood before. An older note than the last one of
-- a task comes too late and changes nothing.
-- @keys index
-- @args context_ms task_ms ...notes
-- Replies: shown
-- @include clock shared
local shelf = nil -- of no context
-- @include listing index sides renew prune
local revs = index .. ':revs'
-- First a write that takes no memory: Redis judges that at a script's first write only, and a turn must be able to end.
redis.call('ZREMRANGEBYSCORE', revs, '-inf', text((now_ms - 3600000) * 1000))
for i = 1, #notes, 3 do
  local task, rev = notes[i], notes[i + 1]
  local known = redis.call('ZSCORE', revs, task)
  if not known or tonumber(known) <= tonumber(rev) then
    local is
    for place in string.gmatch(notes[i + 2], '%S+') do
      if not is then
        is = place
      else
        local phase, at, state = string.match(place, '^([^|]+)|([^|]+)|(.+)$')
        index_drop(index, task, phase, at, state)
      end
    end
    if is ~= 'gone' then
      local phase, at, state = string.match(is, '^([^|]+)|([^|]+)|(.+)$')
      list_task(task, phase, at, state)
    end
    redis.call('ZREM', index .. ':coming', task)
    -- A revision is needed for as long as an older note may still be under way.
    redis.call('ZADD', revs, rev, task)
    keep_shared(revs, context_ms)
  end
end
index_prune(index, 8)
return {'shown'}
