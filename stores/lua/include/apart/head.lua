-- A context apart from the fleet's and the callers' slots. Its book, in its own slot, has
--   stamp, released                    the greatest reservation of the fleet's set it knows, and the greatest given back
--   own, own_live, own_busy            the same of its caller's sets: greatest known, given back in either
--   rev                                grows with each step that owes something; no number of it comes twice
--   t:<task> <rev> <new> <old>...      the caller's index has to show the task as <phase>|<at>|<state>, nowhere else
--   u:<caller>:<task> <rev>            a hint that nobody delivers for the task has to be left
--   r <rev>                            a hint that the queue waits for somebody has to be left
-- Whoever changed something does what it owes, and then says so (settle_apart); who dies before leaves it to the sweep.
-- @const context_ms
-- @args stamp own refuse serves
local book = prefix .. 'b:' .. cid
local owed, owes = {}, false

-- Notes where a task stood and where it stands now, on top of what was owed of it before.
local function owe_task(task, was, is)
  local note = owed['t:' .. task]
  if not note then
    note = {is = 'gone', was = {}}
    local before = redis.call('HGET', book, 't:' .. task)
    if before then
      local words = {}
      for word in string.gmatch(before, '%S+') do words[#words + 1] = word end
      for i = 2, math.min(#words, 40) do
        if words[i] ~= 'gone' then note.was[words[i]] = true end
      end
    end
    owed['t:' .. task], owes = note, true
  end
  if was then note.was[was] = true end
  note.is = is or 'gone'
end

local function owe(field)
  owed[field], owes = true, true
end

local function operation()
