-- What is known of a message, in the context's own slot:
--   while it waits in the queue, and in a turn that came from there: a hash (message_key), with all that its turn needs
--   in a turn that began at once: with its task, as `input` and `turn` (its token, digest, and 1 if it is quiet)
--   when it has ended: a text (outcome_key), see `put_outcome`; `turn` is then the mark of the turn's end
-- A context's run_mid tells which message its running turn has.
local TURN = '^(%S+) (%S*) (%d)$'

local function find_message(mid)
  local run = redis.call('HMGET', context, 'run', 'run_mid')
  if run[1] and run[1] ~= '' and run[2] == mid then
    local token, digest = string.match(redis.call('HGET', task_key(run[1]), 'turn') or '', TURN)
    if token then return {status = 'running', task = run[1], token = token, digest = digest} end
  end
  local known = {}
  local outcome = redis.call('GET', outcome_key(mid))
  if outcome then
    known.status, known.task, known.digest, known.token, known.mark, known.at, known.error, known.reply =
      string.match(outcome, '^(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.-)\n(.*)$')
  else
    -- Also one that ended in form 2 of the records.
    local facts = redis.call('HMGET', message_key(mid), 'status', 'task', 'digest', 'token', 'error', 'reply')
    if not facts[2] then return nil end
    known.status, known.task, known.digest, known.token, known.error, known.reply = unpack(facts)
  end
  return known
end
