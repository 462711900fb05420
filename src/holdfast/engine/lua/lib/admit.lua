--- @include lib/line
-- A new entry takes its place. Options are a JSON object of ours, never the user's payload; '' is a plain entry.
local PRIORITY = 8796093022208

local function order_of(options, due)
  local sign = options.front and -1 or 1
  return string.format('%.0f', sign * due - (options.priority or 0) * PRIORITY)
end

local OPTIONS = {
  delay = 'number', at = 'number', ttl = 'number', priority = 'number',
  key = 'string', unique = 'string', front = 'boolean', skip = 'boolean',
}

-- Raises on anything unknown or odd, so it must be called before the first write.
local function read_options(text)
  if text == '' then
    return {}
  end
  local options = cjson.decode(text)
  if type(options) ~= 'table' then
    error('the options of an entry must be an object')
  end
  for name, value in pairs(options) do
    local odd = type(value) ~= OPTIONS[name]
      or (type(value) == 'number' and not (value % 1 == 0 and math.abs(value) < 9007199254740992))
      -- No name is no option, and NUL is what separates a key from a place in the line.
      or value == '' or (name == 'key' and string.find(value, '%z'))
    if odd then
      error('no such option, or not its kind of value: ' .. name)
    end
  end
  return options
end

-- Returns how many entries became ready, and the id that stands in the way: its own, or that which has its unique name.
local function admit(now, id, envelope, options)
  local other = options.unique and redis.call('HGET', unique, options.unique)
  if not other and redis.call('HSETNX', jobs, id, envelope) == 0 then
    other = id
  end
  if other then
    return 0, other
  end
  if options.unique then
    redis.call('HSET', unique, options.unique, id)
    redis.call('HSET', uniques, id, options.unique)
  end
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
