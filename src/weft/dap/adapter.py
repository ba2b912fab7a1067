"""The debug adapter: the requests of one editor, answered from one session.

A thread reads; all else is done by the thread that serves. While ranks run, it looks at what came: what can be answered
then is, a pause stops the ranks, and the rest waits for its turn.
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
from weft.dap.capabilities import CAPABILITIES
from weft.dap.points import file_line
from weft.dap.session import Session
from weft.dap.wire import FROM_STRANGERS, LONGEST, Message, Wire, WireError
from weft.debug.answers import stands
from weft.debug.debugger import Debugger
from weft.debug.prompt import COMMANDS, Quit, completions, parse
from weft.errors import DebuggerError, UsageError, WeftError
from weft.tasks.backend import How
from weft.tasks.ranks import TaskPrompt, inspect_rank, prepare_replay_folder

Body = dict[str, Any]
Later = Callable[[], None]
AT_ONCE = ("threads", "pause", "loadedSources", "weft/ranks")
"""Requests that are answered while ranks run."""
INTERRUPT = ("setBreakpoints", "setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints")
"""Requests for which ranks that run to a breakpoint are stopped, and then go on."""
TOLD = ("launch", "attach", "restart", "setVariable", "setExpression")
"""Requests whose failure the editor is to show; what it asks for by itself may come after ranks have run."""
END = ("disconnect", "terminate")


def prepared(folder: Path) -> None:
    """Put into a replay's folder what its ranks need."""
    prepare_replay_folder(folder)
    output.prepare(folder)


class Adapter:
    """One editor. `findings`: what `finding:N` means, for a trace; `secret`: what `launch` has to bring, if any."""

    def __init__(self, wire: Wire, findings: Callable[[Any], Sequence[Any]], secret: str | None = None) -> None:
        self.wire, self._findings, self._secret = wire, findings, secret
        self._greeted = False
        if secret is not None:
            wire.longest = FROM_STRANGERS
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._kept: deque[Message | None] = deque()
        self._session: Session | None = None
        self._arguments: Body = {}
        self._progress = self._done = False
        self._where = ""

    # Requests come and go

    def serve(self) -> None:
        """Answer until the editor has gone."""
        threading.Thread(target=self._read, daemon=True).start()
        try:
            while not self._done and (request := self._next()) is not None:
                self._answer(request)
        finally:
            if self._session is not None:
                self._session.debugger.close()

    def _read(self) -> None:
        try:
            for message in self.wire.messages():
                if message.get("type") == "request":
                    self._inbox.put(message)
        except (WireError, OSError, ValueError) as error:
            self.wire.event("output", category="important", output=f"weft: {error}\n")
        self._inbox.put(None)

    def _next(self) -> Message | None:
        return self._kept.popleft() if self._kept else self._inbox.get()

    def _look(self) -> None:
        """While ranks run: answer what can be answered, keep the rest. KeyboardInterrupt where they are to stop."""
        while not self._inbox.empty():
            request = self._inbox.get()
            name = None if request is None else request.get("command")
            if request is not None and name in AT_ONCE:
                self._answer(request)
                if name == "pause":
                    raise KeyboardInterrupt
                continue
            self._kept.append(request)
            if request is None or name in END:
                raise KeyboardInterrupt
            if name in INTERRUPT and self._session is not None:
                self._session.again = True
                raise KeyboardInterrupt

    def _take(self) -> None:
        """Answer what has been kept, but for what lets ranks run."""
        for _ in range(len(self._kept)):
            request = self._kept.popleft()
            if request is not None and request.get("command") in INTERRUPT:
                self._answer(request)
            else:
                self._kept.append(request)

    def _answer(self, request: Message) -> None:
        name, arguments = str(request.get("command")), request.get("arguments")
        about = {"request_seq": request.get("seq", 0), "command": name}
        later: Later | None = None
        try:
            handler = self._handlers().get(name)
            if handler is None:
                raise UsageError(f"`weft dap` has no request {name}")
            given = arguments if isinstance(arguments, dict) else {}
            self._admit(name, given)
            body = handler(given)
            if isinstance(body, tuple):
                body, later = body
        except KeyboardInterrupt:
            self.wire.send("response", success=False, message="cancelled", **about)
        except Quit:
            self.wire.send("response", success=True, **about, body={"result": "", "variablesReference": 0})
            self._end()
        except (WeftError, OSError) as error:
            problem = {"id": 1, "format": str(error).replace("{", "(").replace("}", ")"), "showUser": name in TOLD}
            self.wire.send("response", success=False, message=str(error), **about, body={"error": problem})
        except (KeyError, TypeError, ValueError) as error:  # what an editor sends is not ours to trust
            text = f"{name}: an argument is missing or of a wrong kind ({type(error).__name__}: {error})"
            self.wire.send("response", success=False, message=text, **about)
        else:
            self.wire.send("response", success=True, **about, **({} if body is None else {"body": body}))
            if later is not None:
                later()

    def _admit(self, name: str, arguments: Body) -> None:
        """UsageError for a request that may not come yet: `initialize` comes first, then `launch`, with the secret."""
        if name in END:
            return
        if (name == "initialize") == self._greeted:
            raise UsageError("the first request, and only that, is `initialize`")
        if self._secret is None or name == "initialize":
            return
        if name not in ("launch", "attach"):
            raise UsageError("`launch` comes first")
        if not hmac.compare_digest(str(arguments.get("secret")).encode(errors="replace"), self._secret.encode()):
            self._done = True
            raise UsageError("launch: secret is not the one that `weft dap` has told where it was started")
        self._secret, self.wire.longest = None, LONGEST

    def _handlers(self) -> dict[str, Callable[[Body], Any]]:
        return {
            "initialize": self._initialize, "launch": self._launch, "attach": self._attach,
            "configurationDone": self._configured, "restart": self._restart, "terminate": self._terminate,
            "disconnect": self._disconnect, "setBreakpoints": self._breakpoints,
            "setFunctionBreakpoints": self._functions, "setDataBreakpoints": self._data,
            "setInstructionBreakpoints": self._instructions,
            "disassemble": lambda a: {"instructions": self.session.stacks.instructions.disassemble(
                str(a["memoryReference"]), int(a.get("offset") or 0), int(a.get("instructionOffset") or 0),
                int(a["instructionCount"]),
            )},
            "setExceptionBreakpoints": lambda _: {"breakpoints": []},
            "dataBreakpointInfo": lambda a: self.session.stacks.data(
                str(a["name"]), a.get("variablesReference"), a.get("frameId")
            ),
            "threads": lambda _: {"threads": self.session.stacks.threads(self.session.rows)},
            "stackTrace": lambda a: self.session.stacks.stack(
                a["threadId"], int(a.get("startFrame") or 0), int(a.get("levels") or 0)
            ),
            "scopes": lambda a: {"scopes": self.session.stacks.scopes(a["frameId"])},
            "variables": lambda a: {"variables": self.session.stacks.variables(
                a["variablesReference"], int(a.get("start") or 0), int(a.get("count") or 0)
            )},
            "setVariable": self._set_variable, "setExpression": self._set_expression, "evaluate": self._evaluate,
            "completions": self._completions, "continue": self._continue, "pause": lambda _: None,
            "next": lambda a: self._step("next", a), "stepIn": lambda a: self._step("step", a),
            "stepOut": lambda a: self._step("finish", a), "stepBack": self._back,
            "reverseContinue": lambda _: (None, self.session.back_to_breakpoint),
            "gotoTargets": self._targets, "goto": self._goto, "exceptionInfo": self._exception,
            "loadedSources": lambda _: {"sources": self.session.files()},
            "weft/findings": lambda _: {"findings": self._told_findings()}, "weft/until": self._until,
            "weft/ranks": lambda _: self._told_ranks(),
        }  # fmt: skip

    @property
    def session(self) -> Session:
        """The replay. UsageError where none has been launched."""
        if self._session is None:
            raise UsageError("nothing is debugged yet: the request `launch` names a run or a program")
        return self._session

    # From start to end

    def _initialize(self, arguments: Body) -> Body:
        self._greeted = True
        self._progress = bool(arguments.get("supportsProgressReporting"))
        if arguments.get("linesStartAt1") is False:
            raise UsageError("`weft dap` counts lines from 1: the editor has to send linesStartAt1: true")
        return CAPABILITIES

    def _attach(self, _: Body) -> Body:
        raise UsageError("`weft dap` replays recorded runs: use the request `launch` with `run` or `program`")

    def _launch(self, arguments: Body) -> tuple[None, Later]:
        if self._session is not None:
            raise UsageError("a run is debugged already: `restart` begins it anew")
        launch.check(arguments)
        self._arguments = arguments

        def said(text: str) -> None:
            self.wire.event("output", category="stdout", output=text)

        if self._progress:
            self.wire.event("progressStart", progressId="launch", title="weft: the run is prepared", cancellable=False)
        try:
            run, program = launch.run_of(arguments, said, self._look)
            options = launch.options(arguments) + ([] if program else launch.agreed(run, arguments))
            debugger = Debugger(run, self._findings, options, program, hand=inspect_rank, prepare=prepared)
            native = arguments.get("nativeFrames")
            self._session = Session(
                TaskPrompt(debugger, as_json=False),
                self.wire,
                self._look,
                self._take,
                native=native,
                tasks=bool(arguments.get("tasks")),
            )
            debugger.first()
        finally:
            if self._progress:
                self.wire.event("progressEnd", progressId="launch")
        self._session.progress = self._progress
        return None, lambda: self.wire.event("initialized")

    def _configured(self, _: Body) -> tuple[None, Later]:
        assert self.session  # UsageError where nothing has been launched
        return None, self._begin

    def _begin(self) -> None:
        """Go to where the session is to begin."""
        session = self.session
        where = launch.places(self._arguments)
        stops = self._arguments.get("stopOnEntry", not session.debugger.stops.breakpoints.all)
        if where:
            for one in where:
                session.until(one)
        elif stops:
            session.tell("entry", session.debugger.stopped(), {})
        else:
            session.continue_(None)

    def _restart(self, arguments: Body) -> tuple[None, Later]:
        session = self.session
        if given := arguments.get("arguments"):
            launch.check(given)
            self._arguments |= {name: given[name] for name in ("until", "finding", "stopOnEntry", "stepAll")
                                if name in given}  # fmt: skip
        session.stacks.moved()
        session.restart()
        return None, self._begin

    def _terminate(self, _: Body) -> tuple[None, Later]:
        return None, self._end

    def _end(self) -> None:
        """The replay is over for the editor, which disconnects then."""
        session = self._session
        if session is not None:
            code = session.debugger.replica.status()
            session.stacks.moved()
            session.debugger.close()
            self._session = None
            if code is not None:
                self.wire.event("exited", exitCode=code)
        self.wire.event("terminated")

    def _disconnect(self, _: Body) -> None:
        self._done = True

    # Breakpoints

    def _breakpoints(self, arguments: Body) -> Body:
        path = str(arguments["source"].get("path") or "")
        if not path:
            raise UsageError("breakpoints are set in files: this source has no path")
        files = self.session.debugger.record.files()
        places = [(file_line(path, int(one["line"]), files), one) for one in arguments.get("breakpoints") or []]
        told = self.session.points.replace(path, places)
        return {"breakpoints": [{**one, "source": {"path": path}} for one in told]}

    def _functions(self, arguments: Body) -> Body:
        given = arguments.get("breakpoints") or []
        return {"breakpoints": self.session.points.replace("functions", [(str(one["name"]), one) for one in given])}

    def _data(self, arguments: Body) -> Body:
        return {"breakpoints": self.session.points.watch(arguments.get("breakpoints") or [])}

    def _instructions(self, arguments: Body) -> Body:
        named = self.session.stacks.instructions.named
        given = arguments.get("breakpoints") or []
        places = [(named(str(one["instructionReference"]), int(one.get("offset") or 0)), one) for one in given]
        return {"breakpoints": self.session.points.replace("instructions", places)}

    # Values

    def _set_variable(self, arguments: Body) -> tuple[Body, Later]:
        stacks = self.session.stacks
        body = stacks.set_variable(arguments["variablesReference"], str(arguments["name"]), str(arguments["value"]))
        return body, self.session.warn

    def _set_expression(self, arguments: Body) -> tuple[Body, Later]:
        stacks = self.session.stacks
        body = stacks.assign(str(arguments["expression"]), str(arguments["value"]), arguments.get("frameId"))
        return body, self.session.warn

    def _evaluate(self, arguments: Body) -> Body:
        text, frame = str(arguments["expression"]).strip(), arguments.get("frameId")
        if arguments.get("context") != "repl":
            return self.session.stacks.evaluate(text, frame)
        if not self._is_command(text, frame):
            return self.session.stacks.evaluate(text, frame)
        if frame is not None:
            self.session.debugger.focus = self.session.stacks.spot(frame).rank
        return {"result": self.session.command(text), "variablesReference": 0}

    def _is_command(self, text: str, frame: Any) -> bool:
        """Whether a line of the console is the prompt's. A short form (`n`) that a variable is called by is that."""
        try:
            name = parse(text)[0] if text else ""
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
        text = str(arguments["text"])[: max(int(arguments["column"]) - 1, 0)]
        begun = text.split(" ")[-1]
        words = [word for word in completions(self.session.debugger) if word.startswith(begun)]
        start = len(text) - len(begun)
        return {"targets": [
            {"label": word, "start": start, "length": len(begun),
             "type": "keyword" if word in COMMANDS else "reference"} for word in words[:200]
        ]}  # fmt: skip

    # Running

    def _rank(self, arguments: Body) -> int:
        of_task = self.session.stacks.task_of(arguments["threadId"])
        return of_task[0] if of_task is not None else self.session.stacks.rank_of(arguments["threadId"])[0]

    def _continue(self, arguments: Body) -> tuple[Body, Later]:
        session, alone = self.session, bool(arguments.get("singleThread"))
        if alone and (of_task := session.stacks.task_of(arguments["threadId"])) is not None:
            return {"allThreadsContinued": False}, lambda: session.step_task("continue", *of_task)
        rank = self._rank(arguments) if alone else None
        return {"allThreadsContinued": not alone}, lambda: session.continue_(rank)

    def _step(self, how: How, arguments: Body) -> tuple[None, Later]:
        session = self.session
        if (of_task := session.stacks.task_of(arguments["threadId"])) is not None:
            return None, lambda: session.step_task(how, *of_task)
        rank = self._rank(arguments)
        everyone = bool(self._arguments.get("stepAll")) and not arguments.get("singleThread")
        return None, lambda: session.step(how, rank, everyone=everyone)

    def _back(self, arguments: Body) -> tuple[None, Later]:
        session = self.session
        if session.stacks.task_of(arguments["threadId"]) is not None:
            raise UsageError("a step back is one of a rank, as tasks may have run in between: choose the rank's thread")
        rank = self._rank(arguments)
        return None, lambda: session.back(rank)

    def _targets(self, arguments: Body) -> Body:
        path, line = str(arguments["source"]["path"]), int(arguments["line"])
        where = file_line(path, line, self.session.debugger.record.files())
        self._where = where
        return {"targets": [{"id": 1, "label": f"the first call at {where}, ahead or behind", "line": line}]}

    def _goto(self, arguments: Body) -> tuple[None, Later]:
        session, rank = self.session, self._rank(arguments)
        if arguments.get("targetId") != 1 or not self._where:
            raise UsageError("this target is not known: ask for `gotoTargets` first")
        where = f"{rank}:{self._where}"
        return None, lambda: session.until(where)

    def _until(self, arguments: Body) -> tuple[None, Later]:
        session, where, through = self.session, str(arguments["where"]), bool(arguments.get("through"))
        return None, lambda: session.until(where, through=through)

    def _exception(self, _: Body) -> Body:
        text = self.session.text
        return {"exceptionId": text.split(" ")[0] or "stopped", "description": text, "breakMode": "always"}

    def _told_findings(self) -> list[Body]:
        """The findings of the run, each with where it goes to."""
        found = list(self.session.debugger.findings())
        return [{**one.to_json(), "number": n, "where": f"finding:{n}"} for n, one in enumerate(found, 1)]

    def _told_ranks(self) -> Body:
        """Where every rank stands, while they run too: for a picture that follows them."""
        debugger = self.session.debugger
        rows = [{**row, "words": stands(row)} for row in debugger.ranks()["ranks"]]
        return {"ranks": rows, "focus": debugger.focus, "over": debugger.replica.over}
