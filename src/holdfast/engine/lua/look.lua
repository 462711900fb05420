#!lua flags=allow-oom
--- look: where an entry is; with `watch_ms` > 0 and while it has not ended, its end will be published.
--- keys: ready, later, suspects, dead, broken, jobs, marks, errors, notes, waits, watched, meta, result(id)
--- args: id, watch_ms int
--- returns: {place, when, marks, error, record, envelope, note}
---   place: ended (its record is there) | queued | scheduled | waiting | running | dead | broken | gone (no trace)
--- @include lib/clock
local record = redis.call('GET', result)
if record then
  return { 'ended', 0, '', '', record, '', '' }
end
local envelope = redis.call('HGET', jobs, id)
if not envelope then
  return { 'gone', 0, '', '', '', '', '' }
end
local place, when = 'running', 0
local places = { { ready, 'queued' }, { suspects, 'queued' }, { later, 'scheduled' }, { dead, 'dead' }, { broken, 'broken' } }
for _, candidate in ipairs(places) do
  local score = redis.call('ZSCORE', candidate[1], id)
  if score then
    place, when = candidate[2], tonumber(score)
  end
end
if redis.call('HEXISTS', waits, id) == 1 then
  place = 'waiting'
end
if watch_ms > 0 and place ~= 'dead' and place ~= 'broken' then
  redis.call('ZADD', watched, 'GT', read_clock() + watch_ms, id)
end
local function of(hash)
  return redis.call('HGET', hash, id) or ''
end
return { place, when, of(marks), of(errors), '', envelope, of(notes) }
