-- The server keeps a hash of up to 512 short values as a list and searches it from its beginning: 500 jobs in hand cost
-- 5.6 µs each that way, 2.2 as a table. One long value makes a table of it, for as long as the hash is there.
local LONG = string.rep(' ', 65)

-- Set fields, and return how many are new.
local function set_fields(hash, fields)
  if #fields <= 128 then
    return redis.call('HSET', hash, unpack(fields))
  end
  redis.call('HSET', hash, '', LONG)
  local fresh = redis.call('HSET', hash, unpack(fields))
  redis.call('HDEL', hash, '')
  return fresh
end
