#!lua flags=allow-oom
--- sweep: take back what a worker held that is dead, gone or silent, and forget it when nothing is left.
--- keys: ready, suspects, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, cancels, watched, workers, calls, dead, idle, meta, held(token)
--- args: token, cause, max_crashes int, error, culprits...
--- cause: died (its supervisor saw it; `culprits` had started) | left (of its own will) | silent (its lease is over)
--- returns: {'swept', remaining, given back, buried}; call again while anything remains
---   {'alive'} when it is silent no longer; {'gone'} when it was swept before
--- moves: held -> ready | suspects | dead; dead -> nowhere; line -> ready
--- keeps: I1, I2, I4
--- Culprits are run alone from then on. A lone one is charged with a crash; of several nobody knows which one it was, so
--- none is charged. Nor does anybody know what a silent worker had started: all it held become suspects, and only one
--- that was claimed as a suspect is charged. Whoever reaches `max_crashes` is buried with `error`.
--- @include lib/clock
--- @include lib/bury
--- @include lib/give_back
--- @include lib/ring
local lease = redis.call('ZSCORE', workers, token)
if not lease then
  return { 'gone' }
end
local now = read_clock()
if cause == 'silent' and tonumber(lease) > now then
  return { 'alive' }
end
-- Condemned: it can claim and renew no more, even if this sweep needs several calls and the sweeper dies between them.
redis.call('ZADD', workers, 0, token)
redis.call('ZREM', idle, token)

local suspected = {}
for i = culprits + 1, #ARGV do
  suspected[ARGV[i]] = true
end
local charged = #ARGV - culprits == 1 and ARGV[#ARGV]
local holds = redis.call('HRANDFIELD', held, 500, 'WITHVALUES')
if cause == 'silent' and #holds == 2 and string.sub(holds[2], -1) == 's' then
  charged = holds[1]
end
local back, buried, awake = 0, 0, 0

local function charge(id)
  local m = read_marks(id)
  m.crashes = m.crashes + 1
  keep_marks(id, m)
  redis.call('HINCRBY', meta, 'crashed', 1)
  if m.crashes < max_crashes then
    return false
  end
  redis.call('HDEL', held, id)
  awake = awake + bury(dead, now, id, error)
  buried = buried + 1
  return true
end

for i = 1, #holds, 2 do
  local id, hold = holds[i], holds[i + 1]
  if not (id == charged and charge(id)) then
    give_back(id, hold, suspected[id] or cause == 'silent')
    back = back + 1
  end
end
local remaining = redis.call('HLEN', held)
if remaining == 0 then
  redis.call('ZREM', workers, token)
  redis.call('HDEL', calls, token)
end
redis.call('HSET', meta, 'clock', now)
-- One more: it may have been rung and died before it could look, or have been the one who knew what is due next.
ring(awake + back + 1)
return { 'swept', remaining, back, buried }
