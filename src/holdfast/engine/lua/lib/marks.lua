-- Marks are what an entry has beyond its envelope: "failures crashes expires order flags". Most entries have none.
local PLAIN = '0 0 - - -'

local function read_marks(id)
  local text = redis.call('HGET', marks, id) or PLAIN
  local failures, crashes, expires, order, flags = string.match(text, '^(%d+) (%d+) (%S+) (%S+) (%S+)$')
  return { failures = tonumber(failures), crashes = tonumber(crashes), expires = expires, order = order, flags = flags }
end

local function keep_marks(id, m)
  local text = string.format('%d %d %s %s %s', m.failures, m.crashes, m.expires, m.order, m.flags)
  if text == PLAIN then
    redis.call('HDEL', marks, id)
  else
    redis.call('HSET', marks, id, text)
  end
end
