-- A task as one consistent answer: its facts, its document, and the log entries the document does not cover yet.
local function view(task, after)
  local facts = redis.call('HMGET', task_key(task), 'state', 'phase', 'at', 'ctx', 'doc', 'cursor', 'last', 'trimmed')
  if not facts[2] then return nil end
  local entries = entries_after(task_key(task), log_key(task), after ~= '' and after or facts[6], facts[7])
  return {facts[1], facts[2], facts[3], facts[4], facts[5], facts[6], facts[7], facts[8] or '0-0', entries}
end
