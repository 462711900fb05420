--- @include lib/marks
-- A hold is "fence order", or "fence order s" of a suspect: back to where the entry came from, at the order it had.
-- One that should be cancelled is flagged, so that whoever claims it next cancels it.
local function give_back(id, hold, to_suspects)
  local order, mark = string.match(hold, '^%S+ (%S+)(.*)$')
  redis.call('HDEL', held, id)
  redis.call('ZADD', (to_suspects or mark ~= '') and suspects or ready, order, id)
  if redis.call('HEXISTS', cancels, id) == 1 then
    local m = read_marks(id)
    m.flags = string.gsub(m.flags, '[-c]', '') .. 'c'
    keep_marks(id, m)
  end
end
