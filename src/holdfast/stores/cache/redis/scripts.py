"""The atomic cache operations as Lua scripts for Redis, and a value's stored form: `1763200000000:value`.

The number is when its lifetime ends, in milliseconds by the writer's clock; a reader compares it with its own
clock. So a run clock decides here as it does in memory. Redis gets the lifetime too, and expires values that
no client reads any more.
"""

from __future__ import annotations

from typing import Final

SEPARATOR: Final = b":"

# The value under a key and the text of its end, if that is after `now`; values of other programs are ignored.
_GET_ALIVE: Final = """
local function held(key, now)
  local kept = redis.call('GET', key)
  if not kept then return nil end
  local ends, value = string.match(kept, '^(%d+):(.*)$')
  if not ends or tonumber(ends) <= tonumber(now) then return nil end
  return value, ends
end
"""

# now, end, lifetime in ms, value
PUT_IF_ABSENT: Final = (
    _GET_ALIVE
    + """
if held(KEYS[1], ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. ARGV[4], 'PX', ARGV[3])
return 1
"""
)

# now, end, lifetime in ms
EXTEND: Final = (
    _GET_ALIVE
    + """
local value = held(KEYS[1], ARGV[1])
if not value then return 0 end
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. value, 'PX', ARGV[3])
return 1
"""
)

# now, then the expected value, if there is one
DELETE: Final = (
    _GET_ALIVE
    + """
local value = held(KEYS[1], ARGV[1])
if not value or (ARGV[2] and value ~= ARGV[2]) then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""
)

# now, end, lifetime in ms, by, then the maximum, if there is one
INCREMENT: Final = (
    _GET_ALIVE
    + """
local value, ends = held(KEYS[1], ARGV[1])
local count = 0
if value and string.match(value, '^%d+$') then count = tonumber(value) end
local counted = count + tonumber(ARGV[4])
if ARGV[5] and counted > tonumber(ARGV[5]) then return {count, 0} end
local text = string.format('%.0f', counted)
if ends then
  redis.call('SET', KEYS[1], ends .. ':' .. text, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], ARGV[2] .. ':' .. text, 'PX', ARGV[3])
end
return {counted, 1}
"""
)


def encode_value(value: bytes, expires_ms: int) -> bytes:
    """Return the stored form of a value that expires at `expires_ms`."""
    return str(expires_ms).encode() + SEPARATOR + value


def decode_value(stored: bytes | None, now_ms: int) -> bytes | None:
    """Return the value if Holdfast stored it and its lifetime is not over, or None."""
    ends, separator, value = (stored or b"").partition(SEPARATOR)
    is_alive = separator and ends.isdigit() and int(ends) > now_ms
    return value if is_alive else None
