--- @include lib/marks
-- One entry of a key holds its lock; the others stand in line behind it. All lines are one sorted set without scores:
-- its members are <key> NUL <place in line> NUL <id>, so the next of a key is the first member with its prefix.
local function join_line(key, id)
  local place = redis.call('HINCRBY', meta, 'lined', 1)
  local member = key .. '\0' .. string.format('%016.0f', place) .. '\0' .. id
  redis.call('ZADD', line, 0, member)
  redis.call('HSET', waits, id, member)
end

-- `id` is ready to start: it takes the lock of its key or joins its line. Returns how many entries became ready.
local function step_up(key, id, order)
  local holder = redis.call('HGET', locks, key)
  if holder and holder ~= id then
    local m = read_marks(id)
    m.order = order
    keep_marks(id, m)
    redis.call('HDEL', keyed, id)
    join_line(key, id)
    return 0
  end
  redis.call('HSET', locks, key, id)
  redis.call('HSET', keyed, id, key)
  redis.call('ZADD', ready, order, id)
  return 1
end

-- `id` gives up the lock of its key, if it has it; the next in line takes it. Returns how many became ready.
local function step_down(key, id)
  if redis.call('HGET', locks, key) ~= id then
    return 0
  end
  local member = redis.call('ZRANGEBYLEX', line, '[' .. key .. '\0', '(' .. key .. '\1', 'LIMIT', 0, 1)[1]
  redis.call('HDEL', locks, key)
  if not member then
    return 0
  end
  local heir = string.sub(member, #key + 19)
  redis.call('ZREM', line, member)
  redis.call('HDEL', waits, heir)
  return step_up(key, heir, read_marks(heir).order)
end
