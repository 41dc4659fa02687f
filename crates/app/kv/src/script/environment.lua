-- What scripts see: the globals of Lua 5.1 that Redis 7.0 leaves, and its libraries. `host` has what
-- Rust does, `given` the libraries. Returns the table that has all globals, and what runs a function.
local host, given = ...
local _G, ipairs, pairs = _G, ipairs, pairs
local tostring, select, unpack = tostring, select, unpack
local error, getmetatable, loadstring, load, pcall, rawget, rawset, setmetatable, sub, type, xpcall =
  error, getmetatable, loadstring, load, pcall, rawget, rawset, setmetatable, string.sub, type, xpcall
local explain, where = host.explain, host.where

-- What stands in for a table that nobody may change, and the table.
local kept = {}

local function refuse()
  error('Attempt to modify a readonly table', 2)
end

local function keep(table)
  local shown = setmetatable({}, {__index = table, __newindex = refuse})
  kept[shown] = table
  return shown
end

local globals = {}
for _, name in ipairs {
  '_VERSION', 'assert', 'collectgarbage', 'error', 'gcinfo', 'ipairs', 'next', 'pairs', 'rawequal',
  'rawget', 'select', 'tonumber', 'tostring', 'type', 'unpack',
} do
  globals[name] = _G[name]
end
for name, library in pairs(given) do
  globals[name] = keep(library)
end
for _, name in ipairs {'coroutine', 'string', 'table'} do
  globals[name] = keep(_G[name])
end
for name, value in pairs(_G.math) do
  if not given.math[name] then given.math[name] = value end
end

local function settle(done, err, ...)
  if done then return done, err, ... end
  if type(err) == 'userdata' then err = explain(err) end
  if type(err) == 'table' and type(rawget(err, 'err')) == 'string' then err = err.err end
  return done, err
end
-- As Redis has it: what was raised by redis.call is its text.
function globals.pcall(...)
  return settle(pcall(...))
end
function globals.xpcall(body, handler)
  return xpcall(body, function(err)
    if type(err) == 'userdata' then err = explain(err) end
    return handler(err)
  end)
end
function globals.rawset(table, key, value)
  if kept[table] or table == _G then error({err = 'ERR Attempt to modify a readonly table'}) end
  return rawset(table, key, value)
end
function globals.rawget(table, key)
  return rawget(kept[table] or table, key)
end
function globals.setmetatable(table, metatable)
  if kept[table] or table == _G then error({err = 'ERR Attempt to modify a readonly table'}) end
  return setmetatable(table, metatable)
end
local strings = getmetatable('')
strings.__index = globals.string
local shown_strings, shown_globals = keep(strings), keep({})
function globals.getmetatable(value)
  if kept[value] then return nil end
  if type(value) == 'string' then return shown_strings end
  if value == _G then return shown_globals end
  return getmetatable(value)
end
-- Compiled code can break the interpreter: none is taken.
function globals.loadstring(text, name)
  if type(text) == 'string' and sub(text, 1, 1) == '\27' then
    return nil, 'compiled code is refused'
  end
  return loadstring(text, name)
end
function globals.load(pieces, name)
  local first = true
  local checked = function()
    local piece = pieces()
    if first and type(piece) == 'string' and piece ~= '' then
      first = false
      if sub(piece, 1, 1) == '\27' then error('compiled code is refused', 0) end
    end
    return piece
  end
  if type(pieces) ~= 'function' then checked = pieces end
  return load(checked, name)
end

globals._G = _G
setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
for name in pairs(_G) do _G[name] = nil end
setmetatable(_G, {__index = globals, __newindex = refuse})

-- What a script fails with: a table with its text and where it was.
local function failed(err)
  local source, line = where()
  if type(err) == 'userdata' then err = explain(err) end
  if type(err) ~= 'table' or kept[err] then
    err = {err = 'ERR ' .. tostring(err)}
  end
  if source then
    rawset(err, 'source', source)
    rawset(err, 'line', line)
  end
  return err
end

local function run(body, ...)
  local count, arguments = select('#', ...), {...}
  return xpcall(function() return body(unpack(arguments, 1, count)) end, failed)
end

return globals, run
