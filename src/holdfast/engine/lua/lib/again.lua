-- A worker numbers its calls; one whose number is not new was answered before, and writes nothing a second time.
local function seen_before()
  if tonumber(redis.call('HGET', calls, token) or 0) >= number then
    return true
  end
  redis.call('HSET', calls, token, number)
  return false
end
