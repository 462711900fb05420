#!lua
--- put: bring `count` new entries, each as id, envelope, options; once, however often the call is sent.
--- keys: ready, later, jobs, marks, keyed, locks, waits, line, unique, uniques, idle, meta, sender(name)
--- args: number int, keep_ms int, entries...
--- returns: {'put', now, standing in the way...}; one '' an entry, or the id that has its unique name
---   {'again', now, ...} when the sender's number says that this call was answered before
--- moves: -> ready | later | line
--- keeps: I1, I3, I4
--- @include lib/clock
--- @include lib/admit
--- @include lib/ring
local now = read_clock()
local again = tonumber(redis.call('GET', sender) or 0) >= number

local ids, options = {}, {}
for i = entries + 1, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
  options[#options + 1] = read_options(ARGV[i + 2])
end

local answer = { again and 'again' or 'put', now }
if again then
  -- A write, however small: WAITAOF behind this call looks at the connection's last write.
  redis.call('HINCRBY', meta, 'again', 1)
  for i, id in ipairs(ids) do
    local other = options[i].unique and redis.call('HGET', unique, options[i].unique)
    answer[i + 2] = other and other ~= id and other or ''
  end
  return answer
end

local present = redis.call('HMGET', jobs, unpack(ids))
local bodies, orders, fresh, awake = {}, {}, 0, 0
local known_due = first_due()
for i, id in ipairs(ids) do
  local envelope = ARGV[entries + i * 3 - 1]
  answer[i + 2] = ''
  if present[i] then
    answer[i + 2] = id
  elseif next(options[i]) == nil then
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = envelope
    orders[#orders + 1] = now
    orders[#orders + 1] = id
  else
    local woken, other = admit(now, id, envelope, options[i])
    awake = awake + woken
    fresh = fresh + (other and 0 or 1)
    answer[i + 2] = other or ''
  end
end
if #bodies > 0 then
  redis.call('HSET', jobs, unpack(bodies))
  redis.call('ZADD', ready, unpack(orders))
  awake = awake + #bodies / 2
end
if keep_ms > 0 then
  redis.call('SET', sender, number, 'PX', keep_ms)
else
  redis.call('SET', sender, number)
end
redis.call('HINCRBY', meta, 'put', fresh + #bodies / 2)
redis.call('HSET', meta, 'clock', now)
ring_for(awake, known_due)
return answer
