-- The keys of one context. All carry its hash tag, so they sit in the slot that KEYS[1] routes to; those of a turn
-- found in the queue are not known before the script runs. Wants args: prefix caller cid.
local queue = prefix .. 'q:' .. cid
local shelf = prefix .. 'x:' .. cid
local function message_key(mid) return prefix .. 'm:' .. mid end
local function outcome_key(mid) return prefix .. 'o:' .. mid end
local function task_key(task) return prefix .. 't:' .. caller .. ':' .. task end
local function log_key(task) return prefix .. 'e:' .. caller .. ':' .. task end
local function push_key(task) return prefix .. 'p:' .. caller .. ':' .. task end
local function wake(task, word) return redis.call('PUBLISH', channel .. task, word) end
