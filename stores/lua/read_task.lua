-- Reads a task whole and consistent: its facts, document, and the log entries after a cursor (or after the document).
-- @keys task log
-- @args after most
-- Replies: task <state> <phase> <at> <context id> <doc> <cursor> <last> <trimmed> <entries> | unknown
-- @include position entries
local facts = redis.call('HMGET', task, 'state', 'phase', 'at', 'ctx', 'doc', 'cursor', 'last', 'trimmed', 'cid')
if not facts[2] then return {'unknown'} end
local entries = entries_after(task, log, after ~= '' and after or facts[6], facts[7], most)
return {'task', facts[1], facts[2], facts[3], facts[4], facts[5], facts[6], facts[7], facts[8] or '0-0', entries,
  facts[9]}
