#!lua flags=allow-oom
--- relay: drop from the outbox what was delivered, hand over what was not.
--- keys: outbox
--- args: after, limit int, delivered...
--- returns: up to `limit` of {place, partition, entries} behind the place `after`, oldest first
for i = delivered + 1, #ARGV do
  redis.call('ZREMRANGEBYSCORE', outbox, ARGV[i], ARGV[i])
end
local answer = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', outbox, '(' .. after, '+inf', 'LIMIT', 0, limit)) do
  local place, partition, entries = string.match(member, '^(%d+)%z(.-)%z(.*)$')
  answer[#answer + 1] = { place, partition, entries }
end
return answer
