-- What a script sees of Lua. Runs once for each state; `native` holds functions of Rust.
--
-- A table that outlives a script is shown by a stand-in: an empty table that reads through to it and refuses whatever
-- would change it. Functions that would see the difference (next, rawget, getmetatable ...) are replaced by such that
-- do not show it.
local native = ...

local coroutine, math, string, table = coroutine, math, string, table
local error, next, type, select, tostring, tonumber = error, next, type, select, tostring, tonumber
local pcall, xpcall, setmetatable, getmetatable = pcall, xpcall, setmetatable, getmetatable
local rawget, rawset, rawequal = rawget, rawset, rawequal
local getfenv, setfenv, load, loadstring = getfenv, setfenv, load, loadstring
local assert, ipairs, collectgarbage, gcinfo = assert, ipairs, collectgarbage, gcinfo
local byte, rep, sub = string.byte, string.rep, string.sub

local outside = getfenv(0)
local READ_ONLY = 'Attempt to modify a readonly table'

-- Stand-ins, and what they stand for.
local hidden = {}
local metatables = {}

local function read_only(real)
  local shown = {}
  hidden[shown] = real
  local metatable = {
    __index = real,
    __newindex = function() error(READ_ONLY, 2) end,
  }
  return setmetatable(shown, metatable), metatable
end

-- Errors of Rust's functions are objects; scripts see what Redis's functions raise.
-- The end of a script that runs for too long passes whoever catches errors. The time is looked at there, too: what
-- fails may have taken long for its few instructions, as a text does that memory has no room for.
local shown_error, end_if_killed, is_killed = native.shown_error, native.end_if_killed, native.is_killed

-- Errors that are raised in functions of this file have no place that a script knows: Redis's are functions of C.
local find, match = native.find, native.match

local function without_place(err)
  if type(err) == 'string' and byte(err) == 115 then return match(err, '^shardrace:%d+: (.*)$') or err end
  return err
end

-- Raises the error of a function of C, called by a script with these arguments through a function of this file.
local function fail(name, f, ...)
  local _, err = pcall(f, ...)
  err = without_place(err)
  local first, last = find(err, "'?'", 1, true)
  if first then err = sub(err, 1, first) .. name .. sub(err, last) end
  error(err, 3)
end

local function caught(err)
  err = without_place(err)
  if type(err) == 'userdata' then err = shown_error(err) end
  if type(err) == 'table' then
    local text = err.err
    if type(text) == 'string' or type(text) == 'number' then return text end
  end
  return err
end

local function finish(ok, ...)
  if ok then return ok, ... end
  end_if_killed()
  return ok, (caught((...)))
end

local function finish_resume(ok, ...)
  if ok then return ok, ... end
  end_if_killed()
  local err = without_place((...))
  if type(err) == 'userdata' then err = shown_error(err) end
  return ok, err
end

local function finish_xpcall(ok, ...)
  if not ok then end_if_killed() end
  return ok, ...
end

local globals = {}
local G

globals.assert, globals.error, globals.ipairs = assert, error, ipairs
globals.rawequal, globals.select, globals.tonumber, globals.tostring = rawequal, select, tonumber, tostring
globals.type, globals._VERSION = type, _VERSION

function globals.pcall(...)
  return finish(pcall(...))
end

-- The hook that ends a script raises its error, and the handler runs within it, where no hook runs again: a handler
-- that loops could not be ended. So it is not called.
function globals.xpcall(...)
  if select('#', ...) < 2 then error("bad argument #2 to 'xpcall' (value expected)", 2) end
  local f, handler = ...
  return finish_xpcall(xpcall(f, function(err)
    if is_killed() then return err end
    if type(err) == 'userdata' then err = shown_error(err) end
    return handler(without_place(err))
  end))
end

function globals.next(t, key)
  if type(t) ~= 'table' then fail('next', next, t) end
  return next(hidden[t] or t, key)
end

local shown_next = globals.next

function globals.pairs(t)
  if hidden[t] then return shown_next, t, nil end
  if type(t) ~= 'table' then
    error("bad argument #1 to 'pairs' (table expected, got " .. (t == nil and 'nil' or type(t)) .. ')', 2)
  end
  return next, t, nil
end

function globals.rawget(t, key)
  if type(t) ~= 'table' then fail('rawget', rawget, t, key) end
  return rawget(hidden[t] or t, key)
end

function globals.rawset(t, key, value)
  if hidden[t] then error(READ_ONLY, 0) end
  if type(t) ~= 'table' then fail('rawset', rawset, t, key, value) end
  return rawset(t, key, value)
end

function globals.getmetatable(t)
  if type(t) == 'string' then return metatables.string end
  if hidden[t] then return metatables[t] end
  return getmetatable(t)
end

function globals.setmetatable(...)
  local t = (...)
  if hidden[t] then error(READ_ONLY, 0) end
  if not pcall(setmetatable, ...) then fail('setmetatable', setmetatable, ...) end
  return t
end

-- Functions that are no script's keep to the state's own environment, which nobody gets to see.
function globals.getfenv(f)
  if type(f) == 'number' and f > 0 then f = f + 1 elseif f == nil then f = 2 end
  local environment = getfenv(f)
  if environment == outside then return G end
  return environment
end

local note_set_environment = native.note_set_environment

function globals.setfenv(f, environment)
  if type(f) == 'number' and f > 0 then f = f + 1 end
  if f == 0 or getfenv(f) == outside then
    error("'setfenv' cannot change environment of given object", 2)
  end
  note_set_environment()
  return setfenv(f, environment)
end

-- Bytecode is read as text, and so is refused: its first byte stands in no program.
-- An error of a reader is caught as any other.
local function in_sandbox(f, err)
  if f then
    setfenv(f, G)
    return f
  end
  end_if_killed()
  return nil, err
end

-- The name of a chunk ends at a NUL. Lua's parser does not keep the collector from the text of that name, so it has to
-- be one that somebody holds: what is given to the function, whole.
local function held(name)
  if type(name) == 'number' then name = tostring(name) end
  local nul = type(name) == 'string' and find(name, '\0', 1, true)
  if nul then return sub(name, 1, nul - 1) end
  return name
end

-- A long text is read in pieces, between which the time is looked at.
local PIECE = 65536

local function in_pieces(text)
  local from = 1
  return function()
    local piece = sub(text, from, from + PIECE - 1)
    from = from + PIECE
    return piece
  end
end

function globals.loadstring(...)
  local text, name = ...
  if type(text) ~= 'string' and type(text) ~= 'number' then fail('loadstring', loadstring, ...) end
  name = held(name or text)
  if type(text) == 'string' and byte(text) == 27 then text = ' ' .. text end
  if type(text) == 'string' and #text > PIECE then return in_sandbox(load(in_pieces(text), name)) end
  return in_sandbox(loadstring(text, name))
end

function globals.load(...)
  local reader, name = ...
  local is_first = true
  name = held(name or '=(load)')
  if type(reader) ~= 'function' then fail('load', load, ...) end
  return in_sandbox(load(function()
    local piece = reader()
    if is_first and type(piece) == 'string' and byte(piece) == 27 then piece = ' ' .. piece end
    is_first = false
    return piece
  end, name))
end

-- Lua's own counts its results in 32 bits, where their number may overflow: it gets ranges that are short.
local unpack, is_in_range = unpack, native.is_in_range

function globals.unpack(...)
  if not is_in_range(...) then return end
  return unpack(...)
end

-- What is true is done; what is false tunes the collector, and has no effect.
local collections = {
  collect = true, count = true, step = true, stop = false, restart = false, setpause = false, setstepmul = false,
}

function globals.collectgarbage(what, amount)
  if what == nil then what = 'collect' end
  if type(what) ~= 'string' and type(what) ~= 'number' then
    error("bad argument #1 to 'collectgarbage' (string expected, got " .. type(what) .. ')', 2)
  end
  if collections[what] == nil then
    error("bad argument #1 to 'collectgarbage' (invalid option '" .. what .. "')", 2)
  end
  if amount ~= nil and not tonumber(amount) then
    error("bad argument #2 to 'collectgarbage' (number expected, got " .. type(amount) .. ')', 2)
  end
  if not collections[what] then return 0 end
  return collectgarbage(what, tonumber(amount) or 0)
end

globals.gcinfo = gcinfo

-- The libraries.
local function copied(library)
  local copy = {}
  for name, value in next, library do copy[name] = value end
  return copy
end

local strings = copied(string)
strings.find, strings.match, strings.gmatch, strings.gsub = native.find, native.match, native.gmatch, native.gsub
strings.gfind = native.gmatch

-- What takes memory makes all that follows take longer, so the time is looked at.
local LONG = 65536
local note_long_made = native.note_long_made

function strings.rep(...)
  local text, count = ...
  if (type(text) ~= 'string' and type(text) ~= 'number') or not tonumber(count) then fail('rep', rep, ...) end
  if text == '' then return '' end
  if #text * count < LONG then return rep(text, count) end
  end_if_killed()
  local made = rep(text, count)
  note_long_made()
  return made
end

local tables = copied(table)
local foreach, sort = table.foreach, table.sort
local insert = native.insert

tables.concat = native.concat

function tables.insert(t, ...)
  if hidden[t] then error(READ_ONLY, 0) end
  return insert(t, ...)
end

-- Sorting takes much longer than the memory that it handles suggests, so the time is looked at after it.
local MANY = 4096
-- Without a function that compares, no instructions are executed between which the time is looked at. A table that
-- begins with a number is sorted only if all are numbers, or at the price of functions; texts may be long.
local NUMBERS_SORTED_AT_ONCE, SORTED_AT_ONCE = 1000000, 250000

local function is_less(one, other)
  return one < other
end

function tables.sort(t, ...)
  local is_before = (...)
  if type(t) ~= 'table' or (is_before ~= nil and type(is_before) ~= 'function') then fail('sort', sort, t, ...) end
  local count = #t
  if is_before == nil and count > SORTED_AT_ONCE then
    local at_once = type(rawget(t, 1)) == 'number' and NUMBERS_SORTED_AT_ONCE or SORTED_AT_ONCE
    if count > at_once then is_before = is_less end
  end
  sort(t, is_before)
  if count >= MANY then note_long_made() end
end

function tables.foreach(t, f)
  if type(t) ~= 'table' or type(f) ~= 'function' then fail('foreach', foreach, t, f) end
  return foreach(hidden[t] or t, f)
end

local coroutines = copied(coroutine)

function coroutines.resume(...)
  if type((...)) ~= 'thread' then fail('resume', coroutine.resume, ...) end
  return finish_resume(coroutine.resume(...))
end

local maths = copied(math)
maths.random, maths.randomseed = native.random, native.randomseed

globals.string, globals.table, globals.math = read_only(strings), read_only(tables), read_only(maths)
globals.coroutine = read_only(coroutines)
for name, library in next, native.libraries do globals[name] = read_only(library) end
globals.redis = read_only(native.redis)

getmetatable('').__index = strings
metatables.string = read_only({ __index = globals.string })

local shows
G, shows = read_only(globals)
globals._G = G

local metatable = {
  __index = function(_, name)
    if type(name) ~= 'string' and type(name) ~= 'number' then
      error('Second argument to luaProtectedTableError must be a string or number', 2)
    end
    error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
  end,
}
setmetatable(globals, metatable)
metatables[G] = read_only(metatable)

-- What an error is made into where it is raised.
local handled = native.handled

-- A library of functions sees nothing but what registers them while it is loaded.
local loading = setmetatable({ redis = read_only(setmetatable(native.loading, metatable)) }, metatable)

local function load_library(f)
  setfenv(f, G)
  shows.__index, hidden[G] = loading, loading
  local ok, err = xpcall(f, handled)
  shows.__index, hidden[G] = globals, globals
  return ok, err
end

return load_library, globals, G
