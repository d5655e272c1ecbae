-- Moves a callback's cursor to the event that was delivered; never backwards, so a repeat changes nothing. With the
-- cursor where it is, it only asks whether the delivery is still this holder's and the config still the same.
-- @keys push
-- @args worker fence name version to
-- @include position
-- Replies: settled | lost | gone
local facts = redis.call('HMGET', push, 'owner', 'fence', 'v:' .. name, 'c:' .. name)
if facts[1] ~= worker or facts[2] ~= fence then return {'lost'} end
if facts[3] ~= version then return {'gone'} end
if before(facts[4], to) then redis.call('HSET', push, 'c:' .. name, to) end
return {'settled'}
