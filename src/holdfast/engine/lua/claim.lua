#!lua flags=allow-oom
--- claim: hand over up to `limit` ready entries to `token`, all under one new fence.
--- keys: ready, later, suspects, jobs, marks, keyed, locks, waits, line, inbox, workers, idle, meta, held(token)
--- args: token, limit int, alone int
--- returns: {'claimed', now, fence, next_due, suspects, ids, envelopes, marks}
---   next_due: when the first later entry is due, -1 if there is none (asked only when nothing was handed over)
---   suspects: how many entries wait for a worker that takes one of them alone (`alone` = 1)
---   {'gone'} when the token was swept or never enlisted; {'paused', now}
---   limit 0 claims nothing and passes the bell on to another worker
--- moves: later -> ready | line; inbox -> ready; ready -> held; suspects -> held
--- keeps: I1, I2, I3
--- @include lib/clock
--- @include lib/line
--- @include lib/ring
--- @include lib/wide
local lease = tonumber(redis.call('ZSCORE', workers, token) or 0)
if lease == 0 then
  return { 'gone' }
end
local now = read_clock()

local function wait()
  if not redis.call('ZSCORE', idle, token) then
    redis.call('ZADD', idle, now, token)
  end
end

-- Returns whether anything was due.
local function promote()
  local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1000)
  if #due == 0 then
    return false
  end
  local ids, dues = {}, {}
  for i = 1, #due, 2 do
    ids[#ids + 1] = due[i]
    dues[#dues + 1] = due[i + 1]
  end
  redis.call('ZREM', later, unpack(ids))
  local keys = redis.call('HMGET', keyed, unpack(ids))
  for i, id in ipairs(ids) do
    local order = read_marks(id).order
    order = order == '-' and dues[i] or order
    if keys[i] then
      step_up(keys[i], id, order)
    else
      redis.call('ZADD', ready, order, id)
    end
  end
  return true
end

local function new_id()
  local digits, alphabet = {}, '0123456789abcdefghijklmnopqrstuv'
  local parts = { { now, 9 }, { redis.call('HINCRBY', meta, 'taken', 1) % 1048576, 4 } }
  for _, part in ipairs(parts) do
    local text = ''
    for _ = 1, part[2] do
      local digit = part[1] % 32
      text = string.sub(alphabet, digit + 1, digit + 1) .. text
      part[1] = math.floor(part[1] / 32)
    end
    digits[#digits + 1] = text
  end
  return table.concat(digits) .. 'foreign'
end

local function take_in()
  local raw = redis.call('RPOP', inbox, 100)
  if not raw then
    return
  end
  for _, envelope in ipairs(raw) do
    local id = new_id()
    redis.call('HSET', jobs, id, envelope)
    redis.call('ZADD', ready, now, id)
  end
  redis.call('HINCRBY', meta, 'put', #raw)
end

if redis.call('HGET', meta, 'paused') then
  wait()
  return { 'paused', now }
end
local promoted = promote()
take_in()
if limit == 0 then
  redis.call('ZREM', idle, token)
  ring(1)
  return { 'claimed', now, 0, -1, 0, {}, {}, {} }
end

local popped, mark = {}, ''
if alone == 1 then
  popped, mark = redis.call('ZPOPMIN', suspects), ' s'
end
if #popped == 0 then
  popped, mark = redis.call('ZPOPMIN', ready, math.min(limit, 1000)), ''
end
local waiting = redis.call('ZCARD', suspects)
if #popped == 0 then
  wait()
  return { 'claimed', now, 0, tonumber(first_due() or -1), waiting, {}, {}, {} }
end

-- After a failover that lost the last writes the counter is behind; the clock is not. So no fence is issued twice.
local fence = math.max(tonumber(redis.call('HGET', meta, 'fence') or 0) + 1, now * 1000)
redis.call('HSET', meta, 'fence', fence, 'clock', now)
local ids, holds = {}, {}
local prefix = string.format('%.0f ', fence)
for i = 1, #popped, 2 do
  ids[(i + 1) / 2] = popped[i]
  holds[i] = popped[i]
  holds[i + 1] = prefix .. popped[i + 1] .. mark
end
set_fields(held, holds)
redis.call('ZREM', idle, token)
-- What it leaves is for others, and one of them must learn what is due next: this worker is busy now and was not told.
ring(redis.call('ZCARD', ready) + (promoted and first_due() and 1 or 0))
local known = {}
if redis.call('EXISTS', marks) == 1 then
  known = redis.call('HMGET', marks, unpack(ids))
end
return { 'claimed', now, fence, -1, waiting, ids, redis.call('HMGET', jobs, unpack(ids)), known }
