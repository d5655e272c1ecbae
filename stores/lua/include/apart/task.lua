-- The caller's index is in another slot.
local unlist_here = unlist
unlist = function(task, old)
  old = old or redis.call('HMGET', task_key(task), 'phase', 'at', 'state')
  unlist_here(task, old)
  if old[1] then owe_task(task, old[1] .. '|' .. old[2] .. '|' .. old[3], nil) end
end
