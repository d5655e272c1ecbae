-- A worker is about to use a namespace: the form of the records in it becomes this release's, unless a newer one that
-- this release can't read has been here. The key lives as long as anything that was written in that form.
-- @keys schema
-- @args version context_ms
-- Replies: ours | newer <version>
local known = tonumber(redis.call('GET', schema) or '0')
if known > tonumber(version) then return {'newer', tostring(known)} end
-- First a write that takes no memory: Redis judges that at a script's first write only, and a worker must be able to
-- start on a full one, since it may be needed to end what fills it.
redis.call('PEXPIRE', schema, context_ms)
redis.call('SET', schema, version, 'PX', context_ms)
return {'ours'}
