"""Answer the requests of one editor from one debug session.

One thread reads requests; another answers them. While ranks run, the answering thread looks at each new request: some
are answered at once, a pause stops the ranks, all others are postponed until the ranks have stopped.
"""

from __future__ import annotations

import hmac
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.dap import launch, output
from weft.dap.breakpoints import source_location
from weft.dap.capabilities import CAPABILITIES
from weft.dap.session import Session
from weft.dap.wire import MAX_MESSAGE_BYTES, MAX_UNAUTHENTICATED_BYTES, Message, Wire, WireError
from weft.debug.answers import describe_thread
from weft.debug.debugger import Debugger
from weft.debug.prompt import COMMANDS, Quit, completions, parse_command
from weft.errors import DebuggerError, UsageError, WeftError
from weft.tasks.backend import Movement
from weft.tasks.ranks import TaskPrompt, attach_debugger_to_rank, prepare_replay_folder

Body = dict[str, Any]
Later = Callable[[], None]
ANSWERED_WHILE_RUNNING = ("threads", "pause", "loadedSources", "weft/ranks")
"""Requests that are answered while ranks run."""
INTERRUPTING = ("setBreakpoints", "setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints")
"""Requests for which ranks that run to a breakpoint are stopped, and then go on."""
SHOWN_FAILURES = ("launch", "attach", "restart", "setVariable", "setExpression")
"""Requests whose failure the editor is to show; what it asks for by itself may come after ranks have run."""
ENDING = ("disconnect", "terminate")


def prepare_rank_files(folder: Path) -> None:
    """Create in the replay's `folder` what its ranks need: the files of the task tools and the output folder."""
    prepare_replay_folder(folder)
    output.create_output_folder(folder)


class Adapter:
    """Serve one editor: read its requests from `wire`, and send responses and events.

    `findings` returns the findings of a trace (for `finding:N`). `secret` is what the `launch` request has to bring;
    None if no secret is required.
    """

    def __init__(self, wire: Wire, findings: Callable[[Any], Sequence[Any]], secret: str | None = None) -> None:
        self.wire, self._findings, self._secret = wire, findings, secret
        self._greeted = False
        if secret is not None:
            wire.max_bytes = MAX_UNAUTHENTICATED_BYTES
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._postponed: deque[Message | None] = deque()
        self._session: Session | None = None
        self._arguments: Body = {}
        self._progress = self._done = False
        self._goto_location = ""

    # Requests come and go

    def serve(self) -> None:
        """Answer the editor's requests until it disconnects, then end the debugger."""
        threading.Thread(target=self._read_requests, daemon=True).start()
        try:
            while not self._done and (request := self._next_request()) is not None:
                self._answer_request(request)
        finally:
            if self._session is not None:
                self._session.debugger.close()

    def _read_requests(self) -> None:
        """Put the editor's requests into the inbox, and None when it has disconnected. Runs in a thread of its own."""
        try:
            for message in self.wire.read_messages():
                if message.get("type") == "request":
                    self._inbox.put(message)
        except (WireError, OSError, ValueError) as error:
            self.wire.send_event("output", category="important", output=f"weft: {error}\n")
        self._inbox.put(None)

    def _next_request(self) -> Message | None:
        """Return the next request, postponed ones first; waits for one. None if the editor has disconnected."""
        return self._postponed.popleft() if self._postponed else self._inbox.get()

    def _handle_while_running(self) -> None:
        """Answer the editor's new requests while ranks run, and postpone those that need stopped ranks.
        KeyboardInterrupt if the ranks have to stop for a request.
        """
        while not self._inbox.empty():
            request = self._inbox.get()
            name = None if request is None else request.get("command")
            if request is not None and name in ANSWERED_WHILE_RUNNING:
                self._answer_request(request)
                if name == "pause":
                    raise KeyboardInterrupt
                continue
            self._postponed.append(request)
            if request is None or name in ENDING:
                raise KeyboardInterrupt
            if name in INTERRUPTING and self._session is not None:
                self._session.is_interrupted = True
                raise KeyboardInterrupt

    def _answer_breakpoint_requests(self) -> None:
        """Answer those of the postponed requests that set breakpoints; the others stay postponed."""
        for _ in range(len(self._postponed)):
            request = self._postponed.popleft()
            if request is not None and request.get("command") in INTERRUPTING:
                self._answer_request(request)
            else:
                self._postponed.append(request)

    def _answer_request(self, request: Message) -> None:
        """Call the handler of a request, and send its response; an error becomes a response without success.

        A handler may return (body, later): the function `later` is called after the response has been sent.
        """
        name, arguments = str(request.get("command")), request.get("arguments")
        about = {"request_seq": request.get("seq", 0), "command": name}
        later: Later | None = None
        try:
            handler = self._request_handlers().get(name)
            if handler is None:
                raise UsageError(f"`weft dap` has no request {name}")
            given = arguments if isinstance(arguments, dict) else {}
            self._check_order(name, given)
            body = handler(given)
            if isinstance(body, tuple):
                body, later = body
        except KeyboardInterrupt:
            self.wire.send("response", success=False, message="cancelled", **about)
        except Quit:
            self.wire.send("response", success=True, **about, body={"result": "", "variablesReference": 0})
            self._end_session()
        except (WeftError, OSError) as error:
            problem = {
                "id": 1,
                "format": str(error).replace("{", "(").replace("}", ")"),
                "showUser": name in SHOWN_FAILURES,
            }
            self.wire.send("response", success=False, message=str(error), **about, body={"error": problem})
        except (KeyError, TypeError, ValueError) as error:  # what an editor sends is not ours to trust
            text = f"{name}: an argument is missing or of a wrong kind ({type(error).__name__}: {error})"
            self.wire.send("response", success=False, message=text, **about)
        else:
            self.wire.send("response", success=True, **about, **({} if body is None else {"body": body}))
            if later is not None:
                later()

    def _check_order(self, name: str, arguments: Body) -> None:
        """Raise UsageError for a request that comes too early: `initialize` has to be first, then `launch`, with the
        secret if one is needed.
        """
        if name in ENDING:
            return
        if (name == "initialize") == self._greeted:
            raise UsageError("the first request must be `initialize`, and it may come only once")
        if self._secret is None or name == "initialize":
            return
        if name not in ("launch", "attach"):
            raise UsageError("`launch` comes first")
        if not hmac.compare_digest(str(arguments.get("secret")).encode(errors="replace"), self._secret.encode()):
            self._done = True
            raise UsageError("launch: the secret is wrong; use the one that `weft dap` printed when it started")
        self._secret, self.wire.max_bytes = None, MAX_MESSAGE_BYTES

    def _request_handlers(self) -> dict[str, Callable[[Body], Any]]:
        """Return the handler of each request by the request's name."""
        return {
            "initialize": self._initialize, "launch": self._launch, "attach": self._reject_attach,
            "configurationDone": self._configuration_done, "restart": self._restart, "terminate": self._terminate,
            "disconnect": self._disconnect, "setBreakpoints": self._set_breakpoints,
            "setFunctionBreakpoints": self._set_function_breakpoints, "setDataBreakpoints": self._set_data_breakpoints,
            "setInstructionBreakpoints": self._set_instruction_breakpoints,
            "disassemble": lambda a: {"instructions": self.session.stacks.instructions.disassemble(
                str(a["memoryReference"]), int(a.get("offset") or 0), int(a.get("instructionOffset") or 0),
                int(a["instructionCount"]),
            )},
            "setExceptionBreakpoints": lambda _: {"breakpoints": []},
            "dataBreakpointInfo": lambda a: self.session.stacks.describe_data_breakpoint(
                str(a["name"]), a.get("variablesReference"), a.get("frameId")
            ),
            "threads": lambda _: {"threads": self.session.stacks.list_threads(self.session.rows)},
            "stackTrace": lambda a: self.session.stacks.list_frames(
                a["threadId"], int(a.get("startFrame") or 0), int(a.get("levels") or 0)
            ),
            "scopes": lambda a: {"scopes": self.session.stacks.list_scopes(a["frameId"])},
            "variables": lambda a: {"variables": self.session.stacks.list_variables(
                a["variablesReference"], int(a.get("start") or 0), int(a.get("count") or 0)
            )},
            "setVariable": self._set_variable, "setExpression": self._set_expression, "evaluate": self._evaluate,
            "completions": self._completions, "continue": self._continue, "pause": lambda _: None,
            "next": lambda a: self._step("next", a), "stepIn": lambda a: self._step("step", a),
            "stepOut": lambda a: self._step("finish", a), "stepBack": self._step_back,
            "reverseContinue": lambda _: (None, self.session.reverse_continue),
            "gotoTargets": self._goto_targets, "goto": self._goto, "exceptionInfo": self._exception_info,
            "loadedSources": lambda _: {"sources": self.session.list_source_files()},
            "weft/findings": lambda _: {"findings": self._list_findings()}, "weft/until": self._run_until,
            "weft/ranks": lambda _: self._list_ranks(),
        }  # fmt: skip

    @property
    def session(self) -> Session:
        """Return the session, which holds the replay. UsageError if no replay has been launched."""
        if self._session is None:
            raise UsageError("nothing is debugged yet: the request `launch` names a run or a program")
        return self._session

    # From start to end

    def _initialize(self, arguments: Body) -> Body:
        """Return what the adapter can do, in the form of the protocol. UsageError for an editor that counts lines from
        0.
        """
        self._greeted = True
        self._progress = bool(arguments.get("supportsProgressReporting"))
        if arguments.get("linesStartAt1") is False:
            raise UsageError(
                "this editor counts lines from 0 and `weft dap` from 1: let the editor's DAP client send "
                "linesStartAt1: true in `initialize`"
            )
        return CAPABILITIES

    def _reject_attach(self, _: Body) -> Body:
        raise UsageError("`weft dap` replays recorded runs: use the request `launch` with `run` or `program`")

    def _launch(self, arguments: Body) -> tuple[None, Later]:
        """Find or record the run that `arguments` name, and start its replay. The event `initialized` is sent after the
        response.
        """
        if self._session is not None:
            raise UsageError("a run is being debugged already: `restart` begins it again")
        launch.check_arguments(arguments)
        self._arguments = arguments

        def said(text: str) -> None:
            self.wire.send_event("output", category="stdout", output=text)

        if self._progress:
            self.wire.send_event(
                "progressStart", progressId="launch", title="weft: the run is prepared", cancellable=False
            )
        try:
            run, program = launch.find_or_record_run(arguments, said, self._handle_while_running)
            options = launch.replay_options(arguments) + (
                [] if program else launch.replay_consent_options(run, arguments)
            )
            debugger = Debugger(
                run, self._findings, options, program, hand=attach_debugger_to_rank, prepare=prepare_rank_files
            )
            native = arguments.get("nativeFrames")
            self._session = Session(
                TaskPrompt(debugger, as_json=False),
                self.wire,
                self._handle_while_running,
                self._answer_breakpoint_requests,
                native=native,
                tasks=bool(arguments.get("tasks")),
            )
            debugger.first()
        finally:
            if self._progress:
                self.wire.send_event("progressEnd", progressId="launch")
        self._session.progress = self._progress
        return None, lambda: self.wire.send_event("initialized")

    def _configuration_done(self, _: Body) -> tuple[None, Later]:
        assert self.session  # UsageError where nothing has been launched
        return None, self._go_to_first_stop

    def _go_to_first_stop(self) -> None:
        """Run the replay to where the session is to begin: the locations in `launch`, else the first breakpoint, or the
        entry.
        """
        session = self.session
        where = launch.start_locations(self._arguments)
        stops = self._arguments.get("stopOnEntry", not session.debugger.stops.breakpoints.all)
        if where:
            for one in where:
                session.run_until(one)
        elif stops:
            session.report_stop("entry", session.debugger.stopped(), {})
        else:
            session.continue_(None)

    def _restart(self, arguments: Body) -> tuple[None, Later]:
        """Start the replay anew, with the arguments of `launch`; the editor may have changed some of them."""
        session = self.session
        if given := arguments.get("arguments"):
            launch.check_arguments(given)
            self._arguments |= {name: given[name] for name in ("until", "finding", "stopOnEntry", "stepAll")
                                if name in given}  # fmt: skip
        session.stacks.invalidate()
        session.restart()
        return None, self._go_to_first_stop

    def _terminate(self, _: Body) -> tuple[None, Later]:
        return None, self._end_session

    def _end_session(self) -> None:
        """Close the replay. The event `exited` is sent if the program has an exit status, then `terminated`."""
        session = self._session
        if session is not None:
            code = session.debugger.replica.status()
            session.stacks.invalidate()
            session.debugger.close()
            self._session = None
            if code is not None:
                self.wire.send_event("exited", exitCode=code)
        self.wire.send_event("terminated")

    def _disconnect(self, _: Body) -> None:
        self._done = True

    # Breakpoints

    def _set_breakpoints(self, arguments: Body) -> Body:
        """Replace the breakpoints in a source file. Return each as verified, or with the reason why it cannot be
        set.
        """
        path = str(arguments["source"].get("path") or "")
        if not path:
            raise UsageError("this source has no path, and breakpoints can be set in files only")
        files = self.session.debugger.record.files()
        places = [(source_location(path, int(one["line"]), files), one) for one in arguments.get("breakpoints") or []]
        told = self.session.breakpoints.replace_group(path, places)
        return {"breakpoints": [{**one, "source": {"path": path}} for one in told]}

    def _set_function_breakpoints(self, arguments: Body) -> Body:
        """Replace the breakpoints at functions. Return each as verified, or with the reason why it cannot be set."""
        given = arguments.get("breakpoints") or []
        return {
            "breakpoints": self.session.breakpoints.replace_group(
                "functions", [(str(one["name"]), one) for one in given]
            )
        }

    def _set_data_breakpoints(self, arguments: Body) -> Body:
        return {"breakpoints": self.session.breakpoints.replace_watchpoints(arguments.get("breakpoints") or [])}

    def _set_instruction_breakpoints(self, arguments: Body) -> Body:
        """Replace the breakpoints at instructions. Return each as verified, or with the reason why it cannot be set."""
        named = self.session.stacks.instructions.breakpoint_location
        given = arguments.get("breakpoints") or []
        places = [(named(str(one["instructionReference"]), int(one.get("offset") or 0)), one) for one in given]
        return {"breakpoints": self.session.breakpoints.replace_group("instructions", places)}

    # Values

    def _set_variable(self, arguments: Body) -> tuple[Body, Later]:
        """Assign a value to a variable, and return the new value. A warning that the replay may leave its record
        follows the response.
        """
        stacks = self.session.stacks
        body = stacks.set_variable(arguments["variablesReference"], str(arguments["name"]), str(arguments["value"]))
        return body, self.session.warn_value_changed

    def _set_expression(self, arguments: Body) -> tuple[Body, Later]:
        """Assign a value to an expression, and return the new value. A warning that the replay may leave its record
        follows the response.
        """
        stacks = self.session.stacks
        body = stacks.assign_expression(str(arguments["expression"]), str(arguments["value"]), arguments.get("frameId"))
        return body, self.session.warn_value_changed

    def _evaluate(self, arguments: Body) -> Body:
        """Return the value of an expression. A text from the editor's console may also be a command of Weft's prompt,
        which is executed.
        """
        text, frame = str(arguments["expression"]).strip(), arguments.get("frameId")
        if arguments.get("context") != "repl":
            return self.session.stacks.evaluate(text, frame)
        if not self._is_prompt_command(text, frame):
            return self.session.stacks.evaluate(text, frame)
        if frame is not None:
            self.session.debugger.focus = self.session.stacks.lookup_frame(frame).rank
        return {"result": self.session.run_prompt_command(text), "variablesReference": 0}

    def _is_prompt_command(self, text: str, frame: Any) -> bool:
        """Return whether a text from the editor's console is a command of Weft's prompt. If the frame has a variable
        with the name of a short form such as `n`, the text is an expression.
        """
        try:
            name = parse_command(text)[0] if text else ""
        except UsageError:
            return text.split(None, 1)[0] in ("tasks", "task", "name", "follow", "waits")
        if text.isidentifier() and text != name:
            try:
                self.session.stacks.evaluate(text, frame)
            except (DebuggerError, UsageError):
                return True
            return False
        return not text[len(text.split(None, 1)[0]) :].lstrip().startswith("=")

    def _completions(self, arguments: Body) -> Body:
        """Return the commands and names that complete the word before the cursor in the editor's console."""
        text = str(arguments["text"])[: max(int(arguments["column"]) - 1, 0)]
        begun = text.split(" ")[-1]
        words = [word for word in completions(self.session.debugger) if word.startswith(begun)]
        start = len(text) - len(begun)
        return {"targets": [
            {"label": word, "start": start, "length": len(begun),
             "type": "keyword" if word in COMMANDS else "reference"} for word in words[:200]
        ]}  # fmt: skip

    # Running

    def _requested_rank(self, arguments: Body) -> int:
        of_task = self.session.stacks.task_of_thread(arguments["threadId"])
        return of_task[0] if of_task is not None else self.session.stacks.rank_of_thread(arguments["threadId"])[0]

    def _continue(self, arguments: Body) -> tuple[Body, Later]:
        """Let all ranks run to the next breakpoint, after the response has been sent. With `singleThread` only the rank
        or task of the given thread runs.
        """
        session, alone = self.session, bool(arguments.get("singleThread"))
        if alone and (of_task := session.stacks.task_of_thread(arguments["threadId"])) is not None:
            return {"allThreadsContinued": False}, lambda: session.step_task("continue", *of_task)
        rank = self._requested_rank(arguments) if alone else None
        return {"allThreadsContinued": not alone}, lambda: session.continue_(rank)

    def _step(self, movement: Movement, arguments: Body) -> tuple[None, Later]:
        """Step the rank or task of a thread, after the response has been sent. `movement`: `next`, `step` or
        `finish`.
        """
        session = self.session
        if (of_task := session.stacks.task_of_thread(arguments["threadId"])) is not None:
            return None, lambda: session.step_task(movement, *of_task)
        rank = self._requested_rank(arguments)
        everyone = bool(self._arguments.get("stepAll")) and not arguments.get("singleThread")
        return None, lambda: session.step(movement, rank, all_ranks=everyone)

    def _step_back(self, arguments: Body) -> tuple[None, Later]:
        """Step a rank back by a line, after the response has been sent. UsageError for a task."""
        session = self.session
        if session.stacks.task_of_thread(arguments["threadId"]) is not None:
            raise UsageError(
                "a task cannot step back, because other tasks may have run in between: choose the thread of its rank "
                "and step back there"
            )
        rank = self._requested_rank(arguments)
        return None, lambda: session.step_back(rank)

    def _goto_targets(self, arguments: Body) -> Body:
        """Return the first call at a line as the only target for `goto`, and remember the line."""
        path, line = str(arguments["source"]["path"]), int(arguments["line"])
        where = source_location(path, line, self.session.debugger.record.files())
        self._goto_location = where
        return {"targets": [{"id": 1, "label": f"the first call at {where}, ahead or behind", "line": line}]}

    def _goto(self, arguments: Body) -> tuple[None, Later]:
        """Run the replay, forwards or back, to the target that `gotoTargets` returned, after the response has been
        sent.
        """
        session, rank = self.session, self._requested_rank(arguments)
        if arguments.get("targetId") != 1 or not self._goto_location:
            raise UsageError("this target is not known: ask for `gotoTargets` first")
        where = f"{rank}:{self._goto_location}"
        return None, lambda: session.run_until(where)

    def _run_until(self, arguments: Body) -> tuple[None, Later]:
        session, where, through = self.session, str(arguments["where"]), bool(arguments.get("through"))
        return None, lambda: session.run_until(where, through=through)

    def _exception_info(self, _: Body) -> Body:
        text = self.session.text
        return {"exceptionId": text.split(" ")[0] or "stopped", "description": text, "breakMode": "always"}

    def _list_findings(self) -> list[Body]:
        """Return the findings of the run, each with its number and the location that `until` takes."""
        found = list(self.session.debugger.findings())
        return [{**one.to_json(), "number": n, "where": f"finding:{n}"} for n, one in enumerate(found, 1)]

    def _list_ranks(self) -> Body:
        """Return where every rank is. Also answered while ranks run, so that the editor can draw them."""
        debugger = self.session.debugger
        rows = [{**row, "words": describe_thread(row)} for row in debugger.ranks()["ranks"]]
        return {"ranks": rows, "focus": debugger.focus, "over": debugger.replica.over}
