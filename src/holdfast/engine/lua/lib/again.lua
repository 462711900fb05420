-- A worker numbers its calls, so that one that was sent twice is not told that its entries were lost.
-- What guards them is the fence: a call that finds them held was not here before, whatever has overtaken it.
local function seen_before()
  return tonumber(redis.call('HGET', calls, token) or 0) >= number
end

local function remember()
  if not seen_before() then
    redis.call('HSET', calls, token, number)
  end
end
