#!lua flags=allow-oom
--- renew: the supervisor says that these tokens live on; with `enlist` = 1 they are new and join.
--- keys: workers, cancels, watched, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, dead, broken, ready, meta
--- args: lease_ms int, enlist int, tokens...
--- returns: {'renewed', now, gone tokens, ids whose running jobs should be cancelled}
--- moves: dead | broken -> nowhere
--- keeps: I7 (what nobody waits for any more and graves that are too old go), I8
--- @include lib/clock
--- @include lib/bury
local now = read_clock()
local gone = {}
for i = tokens + 1, #ARGV do
  local lease = tonumber(redis.call('ZSCORE', workers, ARGV[i]) or 0)
  if lease > 0 or enlist == 1 then
    redis.call('ZADD', workers, now + lease_ms, ARGV[i])
  else
    gone[#gone + 1] = ARGV[i]
  end
end
redis.call('ZREMRANGEBYSCORE', watched, '-inf', now)
trim(dead, now)
trim(broken, now)
redis.call('HSET', meta, 'clock', now)
return { 'renewed', now, gone, redis.call('HRANDFIELD', cancels, 100) }
