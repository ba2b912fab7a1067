"""An editor as the protocol knows it: requests, responses and events of one `weft dap`, held against the schema."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

Body = dict[str, Any]
SECONDS = 150.0


class Refused(Exception):
    """The adapter answered that it cannot."""


class Schema:
    """The protocol's own schema, which debugpy brings."""

    def __init__(self, path: Path) -> None:
        schema = json.loads(path.read_text())
        self._known = schema["definitions"]
        self._registry: Any = Registry().with_resource("dap:", Resource.from_contents(schema, DRAFT4))

    def check(self, message: Body) -> None:
        """ValidationError for a message that is not as the protocol says."""
        name = str(message.get("command") or message.get("event"))
        name = name[0].upper() + name[1:] + ("Response" if message["type"] == "response" else "Event")
        if message["type"] == "response" and not message["success"]:
            name = "ErrorResponse" if "body" in message else "Response"
        if name in self._known:  # requests of our own are not
            validator = jsonschema.Draft4Validator({"$ref": f"dap:#/definitions/{name}"}, registry=self._registry)
            validator.validate(message)


class Client:
    """One session. `said`: all messages of the adapter, in order."""

    def __init__(self, command: Sequence[str | Path], schema: Schema | None = None, **options: Any) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, **options,
        )  # fmt: skip
        self.said: list[Body] = []
        self._schema = schema
        self._messages: queue.Queue[Body | None] = queue.Queue()
        self._is_initialized = False
        self._events: list[Body] = []
        self._responses: dict[int, Body] = {}
        self._seq = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while line := stream.readline():
            assert line.startswith(b"Content-Length: "), line
            assert stream.readline() == b"\r\n"
            self._messages.put(json.loads(stream.read(int(line.split()[1]))))
        self._messages.put(None)

    def _take(self, until: float) -> None:
        message = self._messages.get(timeout=max(until - time.monotonic(), 0.01))
        assert message is not None, f"the adapter has gone: {self.errors()}"
        self.said.append(message)
        if self._schema is not None:
            self._schema.check(message)
        if message["type"] == "response":
            self._responses[message["request_seq"]] = message
        else:
            self._events.append(message)

    def errors(self) -> str:
        """What the adapter wrote to its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def send(self, command: str, **arguments: Any) -> int:
        """A request, without waiting for its response; its number."""
        self._seq += 1
        request = {"seq": self._seq, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(request).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self._seq

    def response(self, number: int, seconds: float = SECONDS) -> Body:
        """The body of a response. Refused where the adapter could not."""
        until = time.monotonic() + seconds
        while number not in self._responses:
            self._take(until)
        answer = self._responses.pop(number)
        if not answer["success"]:
            raise Refused(answer["message"])
        return dict(answer.get("body") or {})

    def ask(self, command: str, **arguments: Any) -> Body:
        """A request, and the body of its response."""
        return self.response(self.send(command, **arguments))

    def event(self, name: str, seconds: float = SECONDS) -> Body:
        """The next event of a name, its body."""
        until = time.monotonic() + seconds
        while (found := next((one for one in self._events if one["event"] == name), None)) is None:
            self._take(until)
        self._events.remove(found)
        return dict(found.get("body") or {})

    def initialize(self) -> None:
        """Make the first request, unless it was made: the protocol knows no second one."""
        if not self._is_initialized:
            self.ask("initialize", adapterID="weft", supportsProgressReporting=True)
            self._is_initialized = True

    def launch(self, *, breakpoints: dict[Path, list[Any]] | None = None, **arguments: Any) -> Body:
        """From the first request to the first stop."""
        self.initialize()
        self.ask("launch", **arguments)
        self.event("initialized")
        for path, lines in (breakpoints or {}).items():
            self.breakpoints(path, *lines)
        self.ask("configurationDone")
        return self.event("stopped")

    def breakpoints(self, path: Path, *lines: Any) -> list[Body]:
        """Set the breakpoints of a file: lines, or what the protocol calls source breakpoints."""
        given = [{"line": line} if isinstance(line, int) else line for line in lines]
        found = self.ask("setBreakpoints", source={"path": str(path)}, breakpoints=given)
        return list(found["breakpoints"])

    def go(self, command: str, thread: int = 1, **arguments: Any) -> Body:
        """Let ranks run, to the next stop."""
        self.ask(command, threadId=thread, **arguments)
        return self.event("stopped")

    def threads(self) -> dict[int, str]:
        """The threads' names."""
        return {one["id"]: one["name"] for one in self.ask("threads")["threads"]}

    def frames(self, thread: int) -> list[Body]:
        """The stack of a thread."""
        return list(self.ask("stackTrace", threadId=thread)["stackFrames"])

    def place(self, thread: int) -> tuple[str, int]:
        """The function and line at which a thread stands."""
        frame = self.frames(thread)[0]
        return frame["name"], frame["line"]

    def variables(self, thread: int, frame: int = 0) -> dict[str, Body]:
        """The local variables of a frame, by name."""
        found = self.ask("scopes", frameId=self.frames(thread)[frame]["id"])["scopes"]
        number = next(one["variablesReference"] for one in found if one["name"] == "Locals")
        return self.parts(number)

    def parts(self, number: int, **arguments: Any) -> dict[str, Body]:
        """The parts of a value, by name."""
        found = self.ask("variables", variablesReference=number, **arguments)["variables"]
        return {one["name"]: one for one in found}

    def output(self, category: str = "stdout") -> str:
        """All output so far of a category."""
        return "".join(
            one["body"]["output"] for one in self.said if one.get("event") == "output"
            and one["body"].get("category") == category
        )  # fmt: skip

    def close(self) -> int:
        """End the session; the adapter's status."""
        self.send("disconnect")
        assert self.process.stdin is not None
        try:
            status = self.process.wait(20)
        finally:
            self.process.kill()
        return status
