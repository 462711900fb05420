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
if #ids == 0 then
  return { 'recalled', read_clock(), {}, {}, {}, {} }
end
return { 'recalled', read_clock(), ids, holds, redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', marks, unpack(ids)) }
