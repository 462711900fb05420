-- How `token` holds an entry, if it does so under this fence; nil otherwise. `finish` looks at a batch in one call.
local function hold_under(fence, id)
  local hold = redis.call('HGET', held, id)
  return hold and string.sub(hold, 1, #fence + 1) == fence .. ' ' and hold or nil
end
