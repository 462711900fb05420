#!lua flags=allow-oom
--- finish: entries that `token` holds ended well; the hot path.
--- keys: ready, jobs, marks, errors, keyed, locks, waits, line, unique, uniques, cancels, watched, calls, idle, meta, held(token), result(id)...
--- args: token, number int, results int, rest...
--- rest: `results` times ttl, record (for the result keys in the same order); then groups of fence, count, ids
--- returns: {'finished', lost ids...}; what is not held under its fence is lost: nothing is written for it
---   {'again'} when this call was answered before
--- moves: held -> gone
--- keeps: I1, I2, I3, I4, I5
--- @include lib/leave
--- @include lib/again
--- @include lib/ring
if seen_before() then
  return { 'again' }
end
local ids, fences = {}, {}
local at = rest + results * 2 + 1
while at <= #ARGV do
  local fence = ARGV[at] .. ' '
  for i = at + 2, at + 1 + tonumber(ARGV[at + 1]) do
    ids[#ids + 1] = ARGV[i]
    fences[#fences + 1] = fence
  end
  at = at + 2 + tonumber(ARGV[at + 1])
end
local answer, ended, kept = { 'finished' }, {}, {}
local holds = redis.call('HMGET', held, unpack(ids))
for i, id in ipairs(ids) do
  local fence = fences[i]
  if holds[i] and string.sub(holds[i], 1, #fence) == fence then
    ended[#ended + 1] = id
    kept[i] = true
  else
    answer[#answer + 1] = id
  end
end
if #ended == 0 then
  return answer
end
redis.call('HDEL', held, unpack(ended))
-- The first `results` ids of the call are those that have one.
for i = 1, results do
  if kept[i] then
    redis.call('SET', KEYS[result + i], ARGV[rest + i * 2], 'PX', ARGV[rest + i * 2 - 1])
  end
end
ring(forget(ended, 'done'))
return answer
