-- The tasks of a context that are not closed, a field of its hash: ' <task> <task> '. A script changes the list in its own
-- memory, and writes it once: with save_open, or among what it writes of the context anyway.
local open_list, open_changed
local function open_tasks()
  if not open_list then open_list = redis.call('HGET', context, 'open') or ' ' end
  return open_list
end

local function count_open()
  local _, count = string.gsub(open_tasks(), '%S+', '')
  return count
end

local function put_open(task, is_open)
  local list = open_tasks()
  local at = string.find(list, ' ' .. task .. ' ', 1, true)
  if is_open == (at ~= nil) then return end
  open_changed = true
  open_list = is_open and list .. task .. ' ' or string.sub(list, 1, at) .. string.sub(list, at + #task + 2)
end

local function save_open()
  if open_changed then redis.call('HSET', context, 'open', open_list) end
  open_changed = false
end
