--- @include lib/line
-- A new entry takes its place. Options are a JSON object of ours, never the user's payload; '' is a plain entry.
local PRIORITY = 8796093022208

local function order_of(options, due)
  local sign = options.front and -1 or 1
  return string.format('%.0f', sign * due - (options.priority or 0) * PRIORITY)
end

local function read_options(text)
  if text == '' then
    return {}
  end
  return cjson.decode(text)
end

-- Returns how many entries became ready, and the id that stands in the way if the entry is not unique.
local function admit(now, id, envelope, options)
  if options.unique then
    local other = redis.call('HGET', unique, options.unique)
    if other then
      return 0, other
    end
    redis.call('HSET', unique, options.unique, id)
    redis.call('HSET', uniques, id, options.unique)
  end
  redis.call('HSET', jobs, id, envelope)
  local due = math.max(options.at or now + (options.delay or 0), now)
  local order = order_of(options, due)
  local plain = not (options.front or options.priority)
  keep_marks(id, {
    failures = 0, crashes = 0, order = plain and '-' or order, flags = options.skip and 'k' or '-',
    expires = options.ttl and string.format('%.0f', now + options.ttl) or '-',
  })
  if due > now then
    if options.key then
      redis.call('HSET', keyed, id, options.key)
    end
    redis.call('ZADD', later, due, id)
    return 0
  end
  if options.key then
    return step_up(options.key, id, order)
  end
  redis.call('ZADD', ready, order, id)
  return 1
end
