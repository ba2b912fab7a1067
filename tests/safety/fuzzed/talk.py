"""What others say to a process of Weft: editors, hosts of a run, browsers. Each speaks to the one that answers."""

from __future__ import annotations

import io
import json
import os
import random
import socket
import threading
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from fuzzed import damage, runs
from fuzzed.runs import Act, Seeds, read_all

import weft
from weft.dap import adapter
from weft.dap.wire import Wire
from weft.errors import UsageError
from weft.launch.local import pack
from weft.launch.local.host_protocol import SealedChannel, Side
from weft.launch.local.hosts import FLAGS, Hosts
from weft.launch.local.rank_setup import RankSetup
from weft.launch.local.watcher import HostWatch, HostWatcher
from weft.launch.rundir import RunDirectory, make_first_facts
from weft.view.run_view import RunView
from weft.view.server import ViewServer

REQUESTS: list[tuple[str, Any]] = [
    ("initialize", {"adapterID": "weft", "linesStartAt1": True, "supportsProgressReporting": True}),
    ("launch", {"run": "weft-runs/prog-1", "secret": "s3cret", "args": ["a"], "ranks": 2, "env": {"A": "B"}, "cwd": "/",
                "until": ["0:3"], "finding": 1, "stopOnEntry": True, "trust": False}),
    ("setBreakpoints", {"source": {"path": "/a/step.py"}, "breakpoints": [{"line": 9, "condition": "x > 1"}]}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": "exchange"}]}),
    ("setInstructionBreakpoints", {"breakpoints": [{"instructionReference": "0x77", "offset": 4}]}),
    ("setDataBreakpoints", {"breakpoints": [{"dataId": '[0, 0, "x"]'}]}),
    ("configurationDone", {}), ("threads", {}), ("stackTrace", {"threadId": 1, "startFrame": 0, "levels": 20}),
    ("scopes", {"frameId": 1}), ("variables", {"variablesReference": 1}), ("weft/findings", None), ("weft/ranks", {}),
    ("evaluate", {"expression": "x", "frameId": 1, "context": "repl"}), ("completions", {"text": "wh", "column": 3}),
    ("disassemble", {"memoryReference": "0x77", "instructionCount": 4}), ("next", {"threadId": 1}),
    ("goto", {"targetId": 1}), ("gotoTargets", {"source": {"path": "a"}, "line": 3}),
    ("restart", {"arguments": {"until": []}}),
    ("disconnect", {}),
]  # fmt: skip
QUESTIONS = [
    "run", "axis?axis=time", "window?axis=time&lanes=0,1,2&from=0&to=1000&columns=100&filter=fn:Recv",
    "links?axis=folded&from=0&to=99", "message?axis=time&side=sends&row=0", "tip?rank=0&event=1",
    "findings?axis=time&patience=0", "event?axis=logical&rank=1&event=2", "around?axis=time&rank=0&event=3",
    "at?axis=time&row=1&from=0&to=9999999",
    "search?axis=time&filter=tag:0&near=3&row=0&back=1", "tables?axis=time&from=0&to=999", "beside?other=x&axis=time",
    "replay?axis=time&version=0&written=0&patience=0", "values", "strip?from=0&to=1&columns=3", "moment?at=0",
    "field?at=0&layer=0&window=0:1&axes=0&most=3&unit=x", "element?at=0&layer=0&index=0",
]  # fmt: skip
WORDS = ["-1", "nan", "inf", "-inf", "1e999", "9" * 30, "9" * 5000, "", "%ED%A0%80", "%00", "1,2", "-5:-1",
         "0:99999999999999", "1e17", "time", "../..", "a" * 2000, "0x1", "\u0661", "1_0", " 3 "]  # fmt: skip
FRIEND = bytes(32)


# An editor


def of_editors(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """The bytes of an editor, on the streams of `weft dap`. No run is launched by what it says."""
    count = r.randrange(1, len(REQUESTS))
    said = (
        [REQUESTS[0], REQUESTS[1], *r.sample(REQUESTS[2:], count - 1)]
        if r.random() < 0.8
        else r.sample(REQUESTS, count)
    )
    messages = [
        {"seq": n, "type": "request", "command": name, "arguments": given} for n, (name, given) in enumerate(said, 1)
    ]
    bodies = [json.dumps(one).encode() for one in messages]
    for _ in range(r.choice([0, 1, 1, 3])):
        k = r.randrange(len(bodies))
        bodies[k] = damage.change_json(bodies[k], r)
    stream = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
    if r.random() < 0.4:
        stream = damage.change(stream, r)
    secret = r.choice([None, "s3cret", "another"])

    def act() -> str:
        _disarm(adapter.launch, "find_or_record_run")
        sink = io.BytesIO()
        adapter.Adapter(Wire(io.BytesIO(stream), sink), lambda _: [], secret).serve()
        answers = sink.getvalue().count(b"Content-Length: ")
        return "answered" if answers else "unanswered"

    return act


def _disarm(owner: object, name: str) -> None:
    """Let a function do nothing that would execute what the input says. Fails where there is no such function."""
    assert callable(getattr(owner, name))
    setattr(owner, name, _nothing)


def _nothing(*_: object) -> Any:
    raise UsageError("nothing is executed here")


# Hosts


def of_hosts(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """What a host says to `weft run`: one that knows the secret, or one that does not."""
    frames: list[tuple[bytes, bytes]] = [(b"H", json.dumps({"host": "one", "folder": "/tmp/x"}).encode())]
    names = [path.name for path in sorted((seeds.sample / "ranks").iterdir())]
    state = {**dict.fromkeys(FLAGS, True), "worlds": {"7": [3, 3]}, "moves": 5, "started": 3, "heard": 1, "busy": False}
    frames += [(b"R", json.dumps({"first": 0, "ranks": names}).encode()), (b"S", json.dumps(state).encode())]
    frames.append((b"P", json.dumps({"of": r.choice(["end", "end", "snapshot"])}).encode()))
    pack.send_pack(seeds.sample, "one", lambda kind, body: frames.append((kind, body)))
    for _ in range(r.choice([0, 1, 1, 2, 4])):
        _mistake(frames, r)
    raw = r.random() < 0.25
    knows = r.random() < 0.9
    chance = random.Random(r.random())

    def act() -> str:
        (folder / "run").mkdir()
        run = RunDirectory(folder / "run", make_first_facts(["prog"], "trace"))
        (run.path / "functions.json").write_bytes((seeds.sample / "functions.json").read_bytes())
        run.write()
        hosts = Hosts(run, FRIEND, here=True)
        try:
            _speak(
                hosts, SealedChannel(FRIEND if knows else os.urandom(32), Side.HOST), frames, chance if raw else None
            )
            hosts.progress()
            hosts.progress(reachable_only=True)
            hosts.gather_records(kill=False)
            hosts.put_into_run()
        finally:
            hosts.remove_incoming()
            hosts.close()
        run.write()
        return f"host {read_all(run.path)}" if hosts.complete_hosts() else "no host"

    return act


def _mistake(frames: list[tuple[bytes, bytes]], r: random.Random) -> None:
    """One thing that no host says."""
    k = r.choice([0, 1, 2, 3, r.randrange(len(frames)), r.randrange(len(frames)), len(frames) - 1]) % len(frames)
    kind, body = frames[k]
    what = r.randrange(8)
    if what < 4:
        change = damage.change_json if body.startswith(b"{") else damage.change
        frames[k] = kind, change(body, r)[: 256 << 10]
    elif what == 4:
        frames[k] = r.choice([b"H", b"S", b"R", b"P", b"B", b"F", b"D", b"C", b"E", b"A", b"\0"]), body
    elif what == 5 and len(frames) > 1:
        del frames[k]
    elif what == 6:
        frames[k:k] = [frames[k]] * r.choice([1, 2, 30])
    else:
        other = r.randrange(len(frames))
        frames[k], frames[other] = frames[other], frames[k]


def _speak(hosts: Hosts, channel: SealedChannel, frames: list[tuple[bytes, bytes]], r: random.Random | None) -> None:
    """Connect and say all, as far as it is listened to. `r`: bytes on the way are damaged as well."""
    with socket.create_connection(("127.0.0.1", hosts.port), 5) as one:
        one.setblocking(False)
        one.send(channel.greeting)
        for _ in range(100):
            hosts.handle_arrivals(0.01)
            with suppress(BlockingIOError, ConnectionError):
                list(channel.receive_frames(one.recv(1 << 16)))
            if channel.is_greeted:
                break
        stream = b"".join(channel.make_frame(*frame) for frame in frames)
        stream = damage.change(stream, r) if r is not None else stream
        with suppress(ConnectionError):
            while stream:
                with suppress(BlockingIOError):
                    stream = stream[one.send(stream) :]
                hosts.handle_arrivals()
        hosts.handle_arrivals(0.01)


def of_watchers(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """What `weft run` says to the watcher of a host, or whoever listens in its place."""
    asks = ["look", "snapshot", "where", "end", "kill", "finish", "thanks", ""]
    frames = [
        (b"A", json.dumps({"do": r.choice(asks), "number": n, "stop": False, "kill": False, "after": False,
                           "how": "finished"}).encode())
        for n in range(r.randrange(1, 8))
    ]  # fmt: skip
    for _ in range(r.choice([0, 1, 1, 2, 4])):
        _mistake(frames, r)
    knows, raw = r.random() < 0.85, r.random() < 0.25

    def act() -> str:
        runs.copied(seeds.sample, folder)
        own = RankSetup("/", "", [], 0, "", None, {}, {})
        ours, theirs = socket.socketpair()
        watcher = HostWatcher(own, FRIEND, seeds.sample / "functions.json")
        watcher.folder, watcher.watch = folder / "run", HostWatch(folder / "run" / "ranks")
        with ours, theirs:
            theirs.setblocking(False)
            watcher.socket = ours
            channel = SealedChannel(FRIEND if knows else os.urandom(32), Side.RUN)
            list(channel.receive_frames(watcher.channel.greeting))
            stream = b"".join(channel.make_frame(*frame) for frame in frames)
            stream = channel.greeting + (damage.change(stream, r) if raw else stream)
            threading.Thread(target=_taken, args=(theirs, stream), daemon=True).start()
            ours.settimeout(2)
            for _ in range(8 + len(stream) // 1000):
                watcher.serve_requests(0.02)
                if watcher.socket is None:
                    break
            trusted = watcher.channel.is_trusted
        return "obeyed" if trusted else "refused"

    return act


def _taken(line: socket.socket, said: bytes) -> None:
    """Say something, and take what is answered until nobody is there."""
    with suppress(OSError):
        line.setblocking(True)
        line.sendall(said)
        while line.recv(1 << 16):
            pass


# The browser


def of_browsers(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """A request to the view: of its own page with odd questions, or of somebody else with any bytes."""
    question = r.choice(QUESTIONS)
    name, _, given = question.partition("?")
    pairs = [pair.split("=", 1) for pair in given.split("&") if pair]
    for pair in r.sample(pairs, min(len(pairs), r.choice([0, 1, 1, 2]))):
        pair[1] = r.choice(WORDS)
    asked = "&".join("=".join(pair) for pair in pairs if r.random() < 0.97)
    body = damage.change_json(b'{"to": "0:3", "rank": 1}', r) if r.random() < 0.3 else None
    harmed = r.random() < 0.25
    chance = random.Random(r.random())

    def act() -> str:
        server = ViewServer(RunView(weft.open(seeds.sample)))
        _disarm(server.picture.replayed, "make_move")
        threading.Thread(target=server.picture.analyse, daemon=True).start()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = server.server_address[1]
        head = f"Host: 127.0.0.1:{port}\r\nCookie: {server.cookie}={server.token}\r\nConnection: close\r\n"
        if body is not None:
            head += (
                f"Origin: http://127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            )
        method, path = ("GET", f"/api/{name}?{asked}") if body is None else ("POST", "/api/replay/until")
        request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")
        with socket.create_connection(("127.0.0.1", port), 5) as one, suppress(ConnectionError):
            one.sendall(damage.change(request, chance) if harmed else request)
            one.shutdown(socket.SHUT_WR)
            one.settimeout(8)
            answer = HTTPResponse(one)
            try:
                answer.begin()
            except (HTTPException, ConnectionError):  # what is no request of HTTP has no answer of HTTP
                return "no answer"
            if answer.status >= 500 and answer.status not in (501, 505):
                raise AssertionError(f"{path[:200]}: {answer.status} {answer.read()[:300]!r}")
            return str(answer.status)
        return "no answer"

    return act
