-- The only clock of stored times. Numbers of this size must be formatted: tostring() would give 1.7e+12.
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local now_ms = tonumber(now)
