-- Closes what waits for its caller in this context, because the task that starts is the answer to it.
local function supersede(task, fence, state, doc)
  if not doc then return end
  for other in string.gmatch(open_tasks(), '%S+') do
    if other ~= task and redis.call('HGET', task_key(other), 'phase') == 'waiting' then
      record(other, fence, 0, 'status', doc)
      set_state(other, 'closed', state)
      -- The document does not know of this closing; its log entry is all there is, so it stays as long as the task.
      redis.call('PEXPIRE', log_key(other), task_ms)
      wake(other, 'closed')
      ask_delivery(push_key(other), caller .. ':' .. other)
    end
  end
end
