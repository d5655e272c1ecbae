-- The only clock of stored times. Numbers of this size must be formatted: tostring() would give 1.7e+12.
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = text(now_ms)
