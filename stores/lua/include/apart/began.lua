-- The caller's index is in another slot.
owe_task(task, nil, 'open|' .. now .. '|' .. working)
