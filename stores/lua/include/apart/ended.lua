-- The fleet's and the caller's keys are in other slots.
redis.call('HDEL', context, 'cancel')
owe_task(task, 'open|' .. old[2] .. '|' .. old[3], 'closed|' .. now .. '|' .. state)
