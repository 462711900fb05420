--- @include lib/leave
-- The dead and the broken are kept, the oldest make room for new ones: at most this many, and not for ever.
local GRAVES, GRAVE_MS = 10000, 15552000000

local function trim(graves, now)
  local excess = redis.call('ZRANGE', graves, 0, math.min(redis.call('ZCARD', graves) - GRAVES, 100) - 1)
  if redis.call('ZCARD', graves) <= GRAVES then
    excess = redis.call('ZRANGEBYSCORE', graves, '-inf', now - GRAVE_MS, 'LIMIT', 0, 100)
  end
  if #excess > 0 then
    redis.call('ZREM', graves, unpack(excess))
    forget(excess, 'trimmed')
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
