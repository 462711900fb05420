#!lua flags=allow-oom
--- cancel: these entries shall not run; what runs already is asked to stop.
--- keys: ready, later, suspects, dead, broken, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, cancels, watched, idle, meta, result(id)...
--- args: ttl_ms int, record, ids...
--- returns: {'cancelled', word an id...}: cancelled (also by the same call before) | asked (it runs) | gone
--- moves: ready | later | suspects | line | dead | broken -> nowhere; line -> ready
--- keeps: I1, I3, I4
--- @include lib/leave
--- @include lib/ring
if #KEYS - result ~= #ARGV - ids then
  return redis.error_reply('ERR each id needs the key of its result')
end
local answer, awake = { 'cancelled' }, 0

local function take_away(id)
  for _, place in ipairs({ ready, later, suspects, dead, broken }) do
    if redis.call('ZREM', place, id) == 1 then
      return true
    end
  end
  local member = redis.call('HGET', waits, id)
  if member then
    redis.call('ZREM', line, member)
    redis.call('HDEL', waits, id)
  end
  return member
end

for i = 1, #ARGV - ids do
  local id = ARGV[ids + i]
  local word = 'gone'
  if take_away(id) then
    word = 'cancelled'
    awake = awake + forget({ id }, 'cancelled')
    if ttl_ms > 0 then
      redis.call('SET', KEYS[result + i], record, 'PX', ttl_ms)
    end
  elseif redis.call('HEXISTS', jobs, id) == 1 then
    word = 'asked'
    redis.call('HSET', cancels, id, record)
    redis.call('PUBLISH', cancels, id)
  elseif ttl_ms > 0 and redis.call('GET', KEYS[result + i]) == record then
    word = 'cancelled'
  end
  answer[#answer + 1] = word
end
ring(awake)
return answer
