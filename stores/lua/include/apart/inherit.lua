  -- A worker can die with a delivery that no roster has yet; who takes the turn takes that, too.
  if serves == '1' and owner ~= worker and redis.call('HGET', push_key(run[1]), 'owner') == owner then
    redis.call('HSET', push_key(run[1]), 'owner', '')
    take_delivery(push_key(run[1]))
  end
