#!lua
--- fire: bring one entry for a tick of a schedule, if nobody has for this tick or a later one.
--- keys: ready, later, jobs, marks, keyed, locks, waits, line, unique, uniques, cron, idle, meta
--- args: name, tick int, id, envelope, options
--- returns: {'fired', '' or the id that stands in the way} or {'late'}
--- moves: nowhere -> ready | later | line
--- keeps: I1, I3, I4
--- @include lib/clock
--- @include lib/admit
--- @include lib/ring
if tonumber(redis.call('HGET', cron, name) or 0) >= tick then
  return { 'late' }
end
local parsed = read_options(options)
local now = read_clock()
local known_due = first_due()
redis.call('HSET', cron, name, tick)
local awake, other = admit(now, id, envelope, parsed)
redis.call('HINCRBY', meta, 'put', other and 0 or 1)
redis.call('HSET', meta, 'clock', now)
ring_for(awake, known_due)
return { 'fired', other or '' }
