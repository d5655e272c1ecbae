-- Removes the hint that a context waits for somebody, unless it still does: another turn may have ended meanwhile, on a
-- worker that takes no more, and the hint would be all that tells of the queue it left.
-- @keys ready ?context ?queue
-- @args ref
-- Replies: dropped | needed
if context and redis.call('EXISTS', queue) == 1 and (redis.call('HGET', context, 'run') or '') == '' then
  return {'needed'}
end
redis.call('SREM', ready, ref)
return {'dropped'}
