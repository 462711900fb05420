--- @include lib/leave
-- The dead and the broken are kept, the oldest make room for new ones: at most this many, and not for ever.
local GRAVES, GRAVE_MS = 10000, 15552000000

local function trim(graves, now)
  local excess = redis.call('ZCARD', graves) - GRAVES
  local oldest
  if excess > 0 then
    oldest = redis.call('ZRANGE', graves, 0, math.min(excess, 100) - 1)
  else
    oldest = redis.call('ZRANGEBYSCORE', graves, '-inf', now - GRAVE_MS, 'LIMIT', 0, 100)
  end
  if #oldest > 0 then
    redis.call('ZREM', graves, unpack(oldest))
    forget(oldest, 'trimmed')
  end
end

-- Returns how many entries of its key became ready.
local function bury(graves, now, id, error)
  redis.call('ZADD', graves, now, id)
  redis.call('HSET', errors, id, error)
  local woken = let_go({ id }, true)
  trim(graves, now)
  return woken
end
