-- Wake up to `n` workers that wait for work. One whose channel nobody hears is gone: the next one is rung.
local function ring(n)
  while n > 0 do
    local token = redis.call('ZPOPMIN', idle)[1]
    if not token then
      return
    end
    if redis.call('PUBLISH', idle .. ':' .. token, '') > 0 then
      n = n - 1
    end
  end
end

local function first_due()
  return redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')[2]
end

-- Something may be due earlier now than anybody knows: then one worker more must learn when to wake up.
local function ring_for(n, known_due)
  ring(n + (first_due() ~= known_due and 1 or 0))
end
