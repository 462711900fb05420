#!lua flags=allow-oom
--- note: what running entries say of themselves, for whoever asks how they are.
--- keys: notes, held(token)
--- args: token, entries...
--- entries: id, fence, note
--- returns: {'noted', lost ids...}; what is not held under its fence is lost: nothing is written for it
--- keeps: I2, I7
--- @include lib/fence
local answer = { 'noted' }
for i = entries + 1, #ARGV, 3 do
  local id = ARGV[i]
  if hold_under(ARGV[i + 1], id) then
    redis.call('HSET', notes, id, ARGV[i + 2])
  else
    answer[#answer + 1] = id
  end
end
return answer
