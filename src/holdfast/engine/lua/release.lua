#!lua flags=allow-oom
--- release: give back entries that `token` holds and has not started; they keep their place and are not charged.
--- keys: ready, suspects, marks, cancels, calls, idle, held(token)
--- args: token, number int, fence, ids...
--- returns: {'released', how many}; {'again'} when this call was answered before
--- moves: held -> ready | suspects
--- keeps: I1, I2
--- @include lib/again
--- @include lib/fence
--- @include lib/give_back
--- @include lib/ring
local count = 0
for i = ids + 1, #ARGV do
  local hold = hold_under(fence, ARGV[i])
  if hold then
    give_back(ARGV[i], hold)
    count = count + 1
  end
end
if count == 0 then
  return seen_before() and { 'again' } or { 'released', 0 }
end
remember()
-- The bell is for somebody else.
redis.call('ZREM', idle, token)
ring(count)
return { 'released', count }
