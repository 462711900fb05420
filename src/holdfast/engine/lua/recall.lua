#!lua flags=no-writes,allow-oom
--- recall: what `token` holds, for a worker that lost the answer to a claim.
--- keys: jobs, marks, workers, meta, held(token)
--- args: token
--- returns: {'recalled', now, ids, holds, envelopes, marks}; {'gone'} when the token was swept
--- @include lib/clock
if tonumber(redis.call('ZSCORE', workers, token) or 0) == 0 then
  return { 'gone' }
end
local all = redis.call('HGETALL', held)
local ids, holds = {}, {}
for i = 1, #all, 2 do
  ids[#ids + 1] = all[i]
  holds[#holds + 1] = all[i + 1]
end

-- A worker may hold more, from many claims, than one command can name.
local function values_of(hash)
  local values = {}
  for first = 1, #ids, 1000 do
    for _, value in ipairs(redis.call('HMGET', hash, unpack(ids, first, math.min(first + 999, #ids)))) do
      values[#values + 1] = value
    end
  end
  return values
end

return { 'recalled', read_clock(), ids, holds, values_of(jobs), values_of(marks) }
