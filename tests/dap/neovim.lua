-- Neovim with nvim-dap, headless: a breakpoint, stop all, the locals of rank 2, a step back, a finding. Prints what it
-- sees as JSON, a line each. Arguments: the folder of nvim-dap, the command of the adapter, the run, the program, the line.
local plugin, command, run, program, line = unpack(vim.fn.json_decode(vim.env.WEFT_NEOVIM))
vim.opt.runtimepath:append(plugin)
local dap = require("dap")
dap.adapters.weft = { type = "executable", command = command[1], args = { unpack(command, 2) },
  options = { initialize_timeout_sec = 60 } }

local stops = {}
dap.listeners.after.event_stopped["weft-test"] = function(_, body) table.insert(stops, body) end

local function told(what) io.stdout:write(vim.fn.json_encode(what) .. "\n") end

local function fail(what)
  told({ failed = what })
  vim.cmd("cquit 1")
end

local function await(what, done)
  if not vim.wait(60000, done, 50) then fail(what) end
end

local function stop(what)
  await("no stop: " .. what, function() return #stops > 0 end)
  local found = table.remove(stops, 1)
  -- nvim-dap asks for threads and frames, and jumps to the line; wait until it has.
  await("no frame: " .. what, function()
    local session = dap.session()
    return session and session.stopped_thread_id == found.threadId and session.current_frame
  end)
  return found
end

local function ask(request, arguments)
  local done, answer, problem = false, nil, nil
  dap.session():request(request, arguments, function(err, result)
    problem, answer, done = err, result, true
  end)
  await("no answer to " .. request, function() return done end)
  if problem then fail(request .. ": " .. vim.inspect(problem)) end
  return answer
end

local function locals(thread)
  local frame = ask("stackTrace", { threadId = thread }).stackFrames[1]
  local scope = ask("scopes", { frameId = frame.id }).scopes[1]
  local found = {}
  for _, one in ipairs(ask("variables", { variablesReference = scope.variablesReference }).variables) do
    found[one.name] = one.value
  end
  return { line = frame.line, name = frame.name, values = found }
end

local function threads()
  local names = {}
  for _, one in ipairs(ask("threads").threads) do table.insert(names, one.name) end
  return names
end

vim.cmd("edit " .. program)
vim.api.nvim_win_set_cursor(0, { line, 0 })
dap.toggle_breakpoint()
dap.run({ type = "weft", request = "launch", name = "test", run = run })
local first = stop("breakpoint")
told({ stop = first.reason, threads = threads(), cursor = vim.api.nvim_win_get_cursor(0)[1], rank2 = locals(3) })

dap.session().stopped_thread_id = 3 -- what choosing a frame of rank 2 does
dap.step_over()
stop("next")
told({ stop = "next", rank2 = locals(3) })
dap.step_back()
told({ stop = stop("back").reason, rank2 = locals(3), cursor = vim.api.nvim_win_get_cursor(0)[1] })

dap.clear_breakpoints()
local findings = ask("weft/findings").findings
if not findings[1] then fail("no findings") end
ask("weft/until", { where = findings[1].where })
told({ stop = stop("finding").reason, finding = findings[1].kind, threads = threads() })
dap.terminate()
vim.wait(500)
vim.cmd("qall!")
