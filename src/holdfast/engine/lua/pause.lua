#!lua flags=allow-oom
--- pause: with `on` = 1 nobody is handed anything of this partition any more; with 0 its workers are woken up.
--- keys: ready, idle, meta
--- args: on int
--- returns: {'paused'} or {'resumed'}
--- @include lib/ring
if on == 1 then
  redis.call('HSET', meta, 'paused', 1)
  return { 'paused' }
end
redis.call('HDEL', meta, 'paused')
-- One more, who learns what else there is: suspects, an inbox, and what is due when.
ring(redis.call('ZCARD', ready) + 1)
return { 'resumed' }
