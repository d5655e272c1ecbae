-- The caller's index is in another slot.
local list_here = list_task
list_task = function(task, phase, at, state)
  list_here(task, phase, at, state)
  owe_task(task, nil, phase .. '|' .. at .. '|' .. state)
end
