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
local groups, at = {}, rest + results * 2 + 1
while at <= #ARGV do
  local group = { fence = ARGV[at] .. ' ', first = at + 2, last = at + 1 + int(at + 1) }
  if group.last < group.first or group.last > #ARGV then
    return redis.error_reply('ERR a group of ids is cut off')
  end
  groups[#groups + 1] = group
  at = group.last + 1
end
local answer, ended, kept = { 'finished' }, {}, {}
local place, count, sub = 0, 0, string.sub
for _, group in ipairs(groups) do
  local fence, size = group.fence, #group.fence
  local holds = redis.call('HMGET', held, unpack(ARGV, group.first, group.last))
  for i, hold in ipairs(holds) do
    local id = ARGV[group.first + i - 1]
    place = place + 1
    if hold and sub(hold, 1, size) == fence then
      count = count + 1
      ended[count] = id
      kept[place] = true
    else
      answer[#answer + 1] = id
    end
  end
end
if count == 0 then
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
