#!lua flags=allow-oom
--- settle: an entry that `token` holds ends in any other way than plain success, with all that its step brings.
--- keys: ready, later, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, cancels, watched, dead, broken, outbox, calls, idle, meta, held(token), result(id)
--- args: token, number int, fence, id, verdict, delay_ms int, error, ttl_ms int, record, note, children int, rest...
--- verdict: done | retry | snooze | dead | cancelled | expired | broken
--- note: what stays of what it said while it ran, if the entry stays; '' for nothing
--- rest: `children` times id, envelope, options (born here); then pairs of partition, entries (born elsewhere, by the outbox)
--- returns: {'settled', verdict}; a retry or snooze of an entry that was cancelled meanwhile settles as cancelled
---   {'lost'} when it is not held under this fence: nothing is written; {'again'} when this call was answered before
--- moves: held -> nowhere | later | dead | broken; dead | broken -> nowhere; line -> ready; nowhere -> ready | later | line
--- keeps: I1, I2, I3, I4, I5
--- @include lib/clock
--- @include lib/admit
--- @include lib/bury
--- @include lib/again
--- @include lib/fence
--- @include lib/ring
local ENDS = { done = true, retry = true, snooze = true, dead = true, cancelled = true, expired = true, broken = true }
local born, outgoing = {}, rest + children * 3
if children < 0 or outgoing > #ARGV or not ENDS[verdict] or (#ARGV - outgoing) % 2 ~= 0 then
  return redis.error_reply('ERR no such verdict, or half of something')
end
for i = rest + 1, outgoing, 3 do
  born[#born + 1] = { ARGV[i], ARGV[i + 1], read_options(ARGV[i + 2]) }
end
local hold = hold_under(fence, id)
if not hold then
  return { seen_before() and 'again' or 'lost' }
end
remember()
local now = read_clock()
local awake, known_due = 0, first_due()
local wish = redis.call('HGET', cancels, id)
if wish and (verdict == 'retry' or verdict == 'snooze' or verdict == 'cancelled') then
  verdict, record, ttl_ms = 'cancelled', wish, 3600000
end

local function keep_note()
  if note == '' then
    redis.call('HDEL', notes, id)
  else
    redis.call('HSET', notes, id, note)
  end
end

local function again_later()
  local m = read_marks(id)
  m.order = string.match(hold, '^%S+ (%S+)')
  if verdict == 'retry' then
    m.failures = m.failures + 1
    redis.call('HSET', errors, id, error)
    redis.call('HINCRBY', meta, 'retried', 1)
  end
  keep_marks(id, m)
  local key = string.find(m.flags, 'k') and redis.call('HGET', keyed, id)
  if key then
    awake = awake + step_down(key, id)
  end
  redis.call('ZADD', later, now + delay_ms, id)
end

redis.call('HDEL', held, id)
if verdict == 'retry' or verdict == 'snooze' then
  keep_note()
  again_later()
elseif verdict == 'dead' or verdict == 'broken' then
  keep_note()
  local m = read_marks(id)
  m.failures = m.failures + 1
  keep_marks(id, m)
  awake = awake + bury(verdict == 'dead' and dead or broken, now, id, error)
else
  awake = awake + forget({ id }, verdict)
end
if ttl_ms > 0 then
  redis.call('SET', result, record, 'PX', ttl_ms)
end
local fresh = 0
for _, child in ipairs(born) do
  local woken, other = admit(now, child[1], child[2], child[3])
  awake = awake + woken
  fresh = fresh + (other and 0 or 1)
end
for i = outgoing + 1, #ARGV, 2 do
  local last = tonumber(redis.call('HGET', meta, 'outgoing') or 0)
  local place = string.format('%.0f', math.max(last + 1, now * 1000))
  redis.call('HSET', meta, 'outgoing', place)
  redis.call('ZADD', outbox, place, place .. '\0' .. ARGV[i] .. '\0' .. ARGV[i + 1])
end
redis.call('HINCRBY', meta, 'put', fresh)
redis.call('HSET', meta, 'clock', now)
ring_for(awake, known_due)
return { 'settled', verdict }
