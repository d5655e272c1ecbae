-- What is known of a message: of one that is under way, or the outcome of one that ended.
-- @keys context
-- @args prefix caller cid mid
local channel = nil -- nobody is woken
-- Replies: message <task> <status: queued, running or closed> <reply> <error> | unknown
-- @include partition message
local known = find_message(mid)
if not known then return {'unknown'} end
-- `ended` is how a record that nothing replays tells its outcome to those who wait for it.
local status = known.status == 'ended' and 'closed' or known.status
return {'message', known.task, status, known.reply or '', known.error or ''}
