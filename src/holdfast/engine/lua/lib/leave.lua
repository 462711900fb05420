--- @include lib/line
-- What an entry gives up when it ends or dies: the lock of its key, its unique name, those who wait for it.
-- One that dies remembers its key (`keeps_key`), so that it lines up again when it is revived.
-- Returns how many entries of their keys became ready.
local function let_go(ids, keeps_key)
  if redis.call('EXISTS', keyed, uniques, cancels, watched) == 0 then
    return 0
  end
  local woken = 0
  local keys = redis.call('HMGET', keyed, unpack(ids))
  local names = redis.call('HMGET', uniques, unpack(ids))
  local waited = redis.call('ZMSCORE', watched, unpack(ids))
  for i, id in ipairs(ids) do
    if keys[i] then
      if not keeps_key then
        redis.call('HDEL', keyed, id)
      end
      woken = woken + step_down(keys[i], id)
    end
    if names[i] then
      redis.call('HDEL', unique, names[i])
      redis.call('HDEL', uniques, id)
    end
    if waited[i] then
      redis.call('ZREM', watched, id)
      redis.call('PUBLISH', watched .. ':' .. id, '')
    end
  end
  redis.call('HDEL', cancels, unpack(ids))
  return woken
end

-- The entries are gone from the partition; nothing of them stays. Returns how many of their keys became ready.
local function forget(ids, counter)
  local woken = let_go(ids)
  local gone = redis.call('HDEL', jobs, unpack(ids))
  if redis.call('EXISTS', marks, errors, notes) > 0 then
    redis.call('HDEL', marks, unpack(ids))
    redis.call('HDEL', errors, unpack(ids))
    redis.call('HDEL', notes, unpack(ids))
  end
  redis.call('HINCRBY', meta, counter, gone)
  return woken
end
