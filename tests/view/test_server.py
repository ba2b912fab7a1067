"""The server: nothing without the token, for no other page, and no path of a request is ever a file's."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests_support import WEFT
from view import runs
from weft.trace import Event
from weft.trace.builder import Builder
from weft.view.call_details import source_panel
from weft.view.server import ANSWERS, ViewServer

Serve = Callable[[Path], ViewServer]


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> ViewServer:
    """A served run."""
    return serve(runs.deadlock(tmp_path_factory.mktemp("served") / "run"))


def ask(server: ViewServer, path: str, token: str | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    given = {"Cookie": f"{server.cookie}={token}"} if token else {}
    connection.request(
        "GET", path, headers={**given, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )
    answer = connection.getresponse()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def move(server: ViewServer, name: str, body: bytes = b"{}", **changed: str | None) -> int:
    """Status of a move of the replay, asked for as the page does but for some headers (None: left out)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    headers: dict[str, str | None] = {
        "Cookie": f"{server.cookie}={server.token}", "Content-Type": "application/json",
        "Origin": f"http://127.0.0.1:{server.server_address[1]}", "Sec-Fetch-Site": "same-origin",
    } | {key.replace("_", "-"): value for key, value in changed.items()}  # fmt: skip
    given = {key: value for key, value in headers.items() if value is not None}
    connection.request("POST", f"/api/replay/{name}", body, given)
    return connection.getresponse().status


def test_only_the_page_itself_moves_the_replay(server: ViewServer) -> None:
    refused: list[dict[str, str | None]] = [
        {"Cookie": None}, {"Cookie": f"{server.cookie}=wrong"}, {"Origin": None}, {"Origin": "null"},
        {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
        {"Content_Type": "text/plain"}, {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": None}, {"Host": "evil.example"},
    ]  # fmt: skip
    for changed in refused:
        assert move(server, "start", **changed) == 403, changed
    assert ask(server, "/api/replay/start", server.token)[0] == 404
    assert move(server, "launch") == move(server, "__init__") == 404
    assert move(server, "until", b" " * 10_000) == 413
    for body in (b"{", b"[]", b"{}", b'{"rank": 0}', b'{"rank": 9, "event": 0}', b'{"rank": 0, "event": 99999}',
                 b'{"rank": "0", "event": "0; ls"}', b'{"rank": true, "event": null}'):  # fmt: skip
        assert move(server, "until", body) == 400, body
    for name in ("continue", "next", "back", "reverse", "pause"):
        assert move(server, name) == 400
    assert server.picture.replayed.state == "none"
    assert move(server, "end") == 200


PATHS = ["/", "/web/main.js", "/web/style.css", *(f"/api/{name}" for name in ANSWERS), "/nothing"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_answered_without_the_token(server: ViewServer, path: str) -> None:
    for token in (None, "wrong", server.token[:-1], ""):
        status, headers, body = ask(server, path, token)
        assert status == 403
        assert "set-cookie" not in headers
        assert b"MPI" not in body


def test_the_token_opens_the_page_and_leaves_the_address(server: ViewServer) -> None:
    status, headers, body = ask(server, f"/?token={server.token}")
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert server.token.encode() not in body
    assert ask(server, "/", server.token)[0] == 200
    assert ask(server, "/?token=other")[0] == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost:8765", 200), ("[::1]", 200), ("evil.example", 403),
     ("evil.example:80", 403), ("127.0.0.1.evil.example", 403), ("127.0.0.1@evil.example", 403), ("", 403)],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered(server: ViewServer, host: str, status: int) -> None:
    assert ask(server, "/api/run", server.token, Host=host)[0] == status


def test_requests_of_other_pages_are_refused(server: ViewServer) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(server, "/api/run", server.token, Sec_Fetch_Site=site)[0] == 403
    assert ask(server, "/api/run", server.token, Sec_Fetch_Site="same-origin")[0] == 200
    assert ask(server, "/api/run", server.token, Origin="http://evil.example")[0] == 403
    assert ask(server, "/api/run", server.token, Origin="null")[0] == 403


def test_headers_forbid_framing_other_origins_and_foreign_code(server: ViewServer) -> None:
    for path in ("/", "/web/main.js", "/api/run", "/nothing"):
        _, headers, _ = ask(server, path, server.token)
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    ["/web/../server.py", "/web/..%2fserver.py", "/web/%2e%2e/server.py", "/web//etc/passwd", "/etc/passwd",
     "/web/main.html", "/run.json", "/ranks/0-000000.weft", "/web/", "/api/../web/main.js", "//127.0.0.1/web/main.js"],
)  # fmt: skip
def test_a_path_is_never_a_file(server: ViewServer, path: str) -> None:
    assert ask(server, path, server.token)[0] == 404


@pytest.mark.parametrize(
    "query",
    ["window?axis=time&lanes=0&from=0&to=0&columns=10", "window?axis=time&lanes=9&from=0&to=9&columns=10",
     "window?axis=time&lanes=0|x&from=0&to=9&columns=1", "window?axis=none&lanes=0&from=0&to=9&columns=1",
     "window?axis=time&lanes=0&from=nan&to=9&columns=1", "window?axis=time&lanes=0&from=0&to=1e400&columns=1",
     "window?axis=time&lanes=0&from=0&to=9&columns=9&filter=no:such", "event?axis=time&rank=0&event=-1",
     "event?axis=time&rank=99&event=0", "event?axis=time&rank=-1&event=0", "event?axis=time&rank=0",
     "around?axis=time&rank=0&event=999", "at?axis=time&row=-1&from=0&to=1"],
)  # fmt: skip
def test_a_wrong_question_is_told_so(server: ViewServer, query: str) -> None:
    assert ask(server, f"/api/{query}", server.token)[0] == 400


def test_a_window_cannot_be_made_to_take_all_memory(server: ViewServer) -> None:
    many = "|".join(["0"] * 5000)
    assert ask(server, f"/api/window?axis=time&lanes={many}&from=0&to=9&columns=9", server.token)[0] in (400, 414)
    status, _, body = ask(server, "/api/window?axis=time&lanes=0&from=0&to=9&columns=999999999", server.token)
    assert status == 200
    assert len(body) < 1_000_000


class TestSource:
    """Only lines around a recorded line of a program's source are shown."""

    def event(self, tmp_path: Path, file: str, line: int) -> Event:
        """A call that says it stands there."""
        b = Builder(ranks=1, path=tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        b.ranks[0].call("MPI_Comm_rank", comm=2, rank=0, site=(file, line, "main"))
        return b.open().event(0, 0)

    def test_the_lines_around_a_call_are_shown(self, tmp_path: Path) -> None:
        file = tmp_path / "prog.py"
        file.write_text("".join(f"line {i}\n" for i in range(1, 100)))
        found = source_panel(self.event(tmp_path, str(file), 50))
        assert found is not None
        assert found["lines"][found["line"] - found["first"]] == "line 50"
        assert len(found["lines"]) < 40

    @pytest.mark.parametrize("name", ["/etc/passwd", "/etc/shadow", "/proc/self/environ", "prog.py", "/dev/zero.py"])
    def test_what_is_no_source_file_is_not_read(self, tmp_path: Path, name: str) -> None:
        assert source_panel(self.event(tmp_path, name, 1)) is None

    def test_a_pipe_and_a_huge_file_are_not_read(self, tmp_path: Path) -> None:
        pipe, huge = tmp_path / "pipe.py", tmp_path / "huge.c"
        os.mkfifo(pipe)
        with huge.open("wb") as file:
            file.truncate(1 << 30)
        for path in (pipe, huge):
            assert source_panel(self.event(tmp_path, str(path), 1)) is None


def start(path: Path, *options: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """Run `weft view`; returns the process and its first lines."""
    given = {**os.environ, **environment}
    # The shell has all below it ignore Ctrl-C where somebody runs the tests in the background.
    command = ["env", "--default-signal=INT", *WEFT, "view", path, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=given)
    assert process.stdout is not None
    lines = ""
    while "Ctrl-C" not in lines:
        line = process.stdout.readline()
        assert line, "weft view ended"
        lines += line
    return process, lines


def test_the_command_prints_the_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    process, lines = start(runs.halo(tmp_path / "run"), "--no-browser")
    try:
        address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})", lines)
        assert address
        connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=20)
        connection.request("GET", "/api/run", headers={"Cookie": f"weft-{address[1]}={address[2]}"})
        assert json.loads(connection.getresponse().read())["ranks"] == 4
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()


def test_through_ssh_the_forwarding_line_is_printed_and_no_browser_opened(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\ntouch {opened}\n")
    browser.chmod(0o755)
    path = runs.halo(tmp_path / "run")
    process, lines = start(path, SSH_CONNECTION="10.0.0.1 5000 10.0.0.2 22", BROWSER=str(browser))
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    port = re.search(r"127\.0\.0\.1:(\d+)/", lines)
    assert port
    assert f"ssh -L {port[1]}:127.0.0.1:{port[1]} 10.0.0.2" in lines
    assert not opened.exists()


def test_a_run_of_level_order_is_refused_with_a_reason(tmp_path: Path) -> None:
    from weft.errors import UsageError
    from weft.trace.layout import Level
    from weft.view.run_view import RunView

    b = Builder(ranks=1, path=tmp_path / "run", level=Level.OUTCOMES)
    b.ranks[0].append_outcomes([1, 2])
    with pytest.raises(UsageError, match="level outcomes"):
        RunView(weft.open(b.write()))


def test_text_draws_in_the_terminal_and_serves_nothing(tmp_path: Path) -> None:
    path = runs.deadlock(tmp_path / "run")
    done = subprocess.run([*WEFT, "view", path, "--text"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "recv←1 #17" in done.stdout
    assert "http://" not in done.stdout
