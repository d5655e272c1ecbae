-- The log. Most turns say nothing between their beginning and their end, and a stream costs more than all else that is
-- kept of them. So these two entries stand with the task, until a third one comes and all move to a stream:
--   first            the id of its beginning, at `created`; where it is set there is no stream
--   end_at, end_doc  its last status, where there is one already; its id is the log's `last`
local function unfold(task)
  local key, log = task_key(task), log_key(task)
  local ends = redis.call('HMGET', key, 'first', 'created', 'last', 'end_at', 'end_doc')
  redis.call('XADD', log, ends[1], 'k', 'start', 'a', ends[2], 'd', '')
  if ends[4] then redis.call('XADD', log, ends[3], 'k', 'status', 'a', ends[4], 'd', ends[5]) end
  redis.call('HDEL', key, 'first', 'end_at', 'end_doc')
end
