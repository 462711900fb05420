-- The server's clock in milliseconds. It never runs backwards; `skew` is only ever set by tests.
local function read_clock()
  local time = redis.call('TIME')
  local kept = redis.call('HMGET', meta, 'clock', 'skew')
  local now = time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(kept[2]) or 0)
  return math.max(now, tonumber(kept[1]) or 0)
end
