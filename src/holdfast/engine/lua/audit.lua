#!lua flags=no-writes,allow-oom
--- audit: are these entries each in exactly one place, and do the partition's numbers add up?
--- keys: ready, later, suspects, dead, broken, jobs, marks, errors, notes, keyed, locks, waits, line, unique, uniques, cancels, workers, calls, outbox, meta, held(token)...
--- args: tokens int, ids...
--- returns: {numbers, problems}: numbers as name, value, ...; each problem a sentence
--- checks: I1, I3, I4, I7
local problems = {}
local function problem(...)
  if #problems < 100 then
    problems[#problems + 1] = string.format(...)
  end
end

local zsets = { ready = ready, later = later, suspects = suspects, dead = dead, broken = broken }
local function places_of(id)
  local places = {}
  for name, key in pairs(zsets) do
    if redis.call('ZSCORE', key, id) then
      places[#places + 1] = name
    end
  end
  if redis.call('HEXISTS', waits, id) == 1 then
    places[#places + 1] = 'line'
  end
  for i = 1, tokens do
    if redis.call('HEXISTS', KEYS[held + i], id) == 1 then
      places[#places + 1] = 'held by ' .. ARGV[i + 1]
    end
  end
  table.sort(places)
  return places
end

for i = ids + tokens + 1, #ARGV do
  local id = ARGV[i]
  local places = places_of(id)
  local known = redis.call('HEXISTS', jobs, id)
  if #places ~= known then
    problem('I1 %s: %s an envelope, is in: %s', id, known == 1 and 'has' or 'has not', table.concat(places, ', '))
  end
  local key = redis.call('HGET', keyed, id)
  local active = key and redis.call('HGET', locks, key) == id
  if places[1] and string.sub(places[1], 1, 4) == 'held' and key and not active then
    problem('I3 %s: is held without the lock of its key', id)
  end
  if known == 0 then
    for name, hash in pairs({ marks = marks, errors = errors, notes = notes, keyed = keyed, waits = waits, uniques = uniques, cancels = cancels }) do
      if redis.call('HEXISTS', hash, id) == 1 then
        problem('I7 %s: has left something in %s', id, name)
      end
    end
  end
end

local numbers, in_hand = {}, 0
for i = 1, tokens do
  in_hand = in_hand + redis.call('HLEN', KEYS[held + i])
end
local waiting = redis.call('HLEN', waits)
local present = redis.call('HLEN', jobs)
local placed = in_hand + waiting
for name, key in pairs(zsets) do
  local size = redis.call('ZCARD', key)
  placed = placed + size
  numbers[#numbers + 1] = name
  numbers[#numbers + 1] = size
end
for name, size in pairs({ held = in_hand, line = waiting, jobs = present, outbox = redis.call('ZCARD', outbox), workers = redis.call('ZCARD', workers) }) do
  numbers[#numbers + 1] = name
  numbers[#numbers + 1] = size
end
local kept = redis.call('HGETALL', meta)
local count = {}
for i = 1, #kept, 2 do
  count[kept[i]] = tonumber(kept[i + 1]) or 0
  numbers[#numbers + 1] = kept[i]
  numbers[#numbers + 1] = kept[i + 1]
end
if placed ~= present then
  problem('I1 %d entries have an envelope, %d have a place', present, placed)
end
local ended = (count.done or 0) + (count.cancelled or 0) + (count.expired or 0) + (count.trimmed or 0)
if (count.put or 0) ~= ended + present then
  problem('I4 put %d, but %d ended and %d are present', count.put or 0, ended, present)
end
if redis.call('ZCARD', line) ~= waiting then
  problem('I3 %d stand in line, %d know their place', redis.call('ZCARD', line), waiting)
end
if redis.call('HLEN', unique) ~= redis.call('HLEN', uniques) then
  problem('I7 %d unique names, %d owners', redis.call('HLEN', unique), redis.call('HLEN', uniques))
end
if redis.call('HLEN', calls) > redis.call('ZCARD', workers) then
  problem('I7 %d numbered callers, %d workers', redis.call('HLEN', calls), redis.call('ZCARD', workers))
end
return { numbers, problems }
