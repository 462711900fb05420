#!lua flags=allow-oom
--- finish: entries that `token` holds ended well; the hot path.
--- keys: ready, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, cancels, watched, calls, idle, meta, held(token), result(id)...
--- args: token, number int, results int, rest...
--- rest: `results` times ttl, record (for the result keys in the same order); then groups of fence, count, ids
--- returns: {'finished', lost ids...}; what is not held under its fence is lost: nothing is written for it
---   {'again'} when this call was answered before
--- moves: held -> nowhere; line -> ready
--- keeps: I1, I2, I3, I4, I5
--- @include lib/leave
--- @include lib/again
--- @include lib/ring
if results ~= #KEYS - result then
  return redis.error_reply('ERR each result needs its key')
end
local ttls = {}
for i = 1, results do
  ttls[i] = int(rest + i * 2 - 1)
end
local ids, fences = {}, {}
local at = rest + results * 2 + 1
while at <= #ARGV do
  local fence, beyond = ARGV[at] .. ' ', at + 2 + int(at + 1)
  if beyond < at + 2 or beyond > #ARGV + 1 then
    return redis.error_reply('ERR a group of ids is cut off')
  end
  for i = at + 2, beyond - 1 do
    ids[#ids + 1] = ARGV[i]
    fences[#fences + 1] = fence
  end
  at = beyond
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
  return seen_before() and { 'again' } or answer
end
remember()
redis.call('HDEL', held, unpack(ended))
-- The first `results` ids of the call are those that have one.
for i = 1, results do
  if kept[i] and ttls[i] > 0 then
    redis.call('SET', KEYS[result + i], ARGV[rest + i * 2], 'PX', ttls[i])
  end
end
ring(forget(ended, 'done'))
return answer
