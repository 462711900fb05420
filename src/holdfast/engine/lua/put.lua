#!lua
--- put: bring new entries, each as id, envelope, options; once, however often the call is sent.
--- keys: ready, later, jobs, marks, keyed, locks, waits, line, unique, uniques, idle, meta, sender(name)
--- args: number int, keep_ms int, entries...
--- returns: {'put', now, standing in the way...}; for each entry '', or the id that has its unique name, or its own id
---   {'again', now, ...} with the same answers when the sender's number says that this call was answered before
--- moves: nowhere -> ready | later | line
--- keeps: I1, I3, I4
--- @include lib/clock
--- @include lib/admit
--- @include lib/ring
--- @include lib/wide
local now = read_clock()
-- A sender is remembered by the number of its last call, with ' <n>:<id>' behind it for the n-th entry's obstacle.
local last, obstacles = string.match(redis.call('GET', sender) or '0', '^(%d+)(.*)$')
if tonumber(last) >= number then
  -- A write, however small: WAITAOF behind this call looks at the connection's last write.
  redis.call('HINCRBY', meta, 'again', 1)
  local answer = { 'again', now }
  for _ = entries + 1, #ARGV, 3 do
    answer[#answer + 1] = ''
  end
  -- The obstacles are those of the last call; of an older one nobody waits for the answer any more.
  for i, other in string.gmatch(tonumber(last) == number and obstacles or '', ' (%d+):(%S+)') do
    answer[i + 2] = other
  end
  return answer
end

local ids, options = {}, {}
for i = entries + 1, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
  options[#options + 1] = read_options(ARGV[i + 2])
end
local present = redis.call('HMGET', jobs, unpack(ids))
local answer, memory = { 'put', now }, { string.format('%.0f', number) }
local bodies, orders, special, fresh, awake = {}, {}, {}, 0, 0
local known_due = first_due()

local function answer_for(i, other)
  answer[i + 2] = other or ''
  if other then
    memory[#memory + 1] = i .. ':' .. other
  end
end

for i, id in ipairs(ids) do
  if present[i] then
    answer_for(i, id)
  elseif next(options[i]) then
    special[#special + 1] = i
  else
    bodies[#bodies + 1] = id
    bodies[#bodies + 1] = ARGV[entries + i * 3 - 1]
    orders[#orders + 1] = now
    orders[#orders + 1] = id
    answer[i + 2] = ''
  end
end
if #bodies > 0 then
  fresh = set_fields(jobs, bodies)
  awake = redis.call('ZADD', ready, unpack(orders))
end
for _, i in ipairs(special) do
  local woken, other = admit(now, ids[i], ARGV[entries + i * 3 - 1], options[i])
  awake = awake + woken
  fresh = fresh + (other and 0 or 1)
  answer_for(i, other)
end
local text = table.concat(memory, ' ')
if keep_ms > 0 then
  redis.call('SET', sender, text, 'PX', keep_ms)
else
  redis.call('SET', sender, text)
end
redis.call('HINCRBY', meta, 'put', fresh)
redis.call('HSET', meta, 'clock', now)
ring_for(awake, known_due)
return answer
