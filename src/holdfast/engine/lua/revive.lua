#!lua flags=allow-oom
--- revive: dead entries, or broken ones after a repair, start afresh: no failures, no crashes, ready now.
--- keys: ready, dead, broken, marks, errors, notes, keyed, locks, waits, line, idle, meta
--- args: ids...
--- returns: {'revived', word an id...}: revived | gone (not dead, not broken)
--- moves: dead | broken -> ready | line
--- keeps: I1, I3, I4
--- @include lib/clock
--- @include lib/line
--- @include lib/ring
local now = read_clock()
local answer, count = { 'revived' }, 0
for i = ids + 1, #ARGV do
  local id = ARGV[i]
  local word = 'gone'
  if redis.call('ZREM', dead, id) + redis.call('ZREM', broken, id) > 0 then
    local m = read_marks(id)
    m.failures, m.crashes, m.expires, m.order = 0, 0, '-', '-'
    m.flags = string.find(m.flags, 'k') and 'k' or '-'
    keep_marks(id, m)
    redis.call('HDEL', errors, id)
    redis.call('HDEL', notes, id)
    local key = redis.call('HGET', keyed, id)
    if key then
      count = count + step_up(key, id, now)
    else
      redis.call('ZADD', ready, now, id)
      count = count + 1
    end
    word = 'revived'
  end
  answer[#answer + 1] = word
end
redis.call('HSET', meta, 'clock', now)
ring(count)
return answer
