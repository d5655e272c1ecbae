-- The hint that nobody delivers is in another slot.
ask_delivery = function(push, entry)
  if serves == '1' and redis.call('HGET', push, 'owner') == '' then owe('u:' .. entry) end
end
