"""The local server of the page: loopback only, nothing without the token, no path of a request names a file.

GET changes nothing; moves of the replay come by POST, as JSON, from the page alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from weft.errors import WeftError
from weft.native import cuts
from weft.safety.peers import is_ours
from weft.view.assets import TYPES, load_assets, load_page, module_names
from weft.view.replay_session import MOVES
from weft.view.run_view import RunView
from weft.view.side_by_side import OtherRuns
from weft.view.value_view import ValueView

LOOPBACK: Final = "127.0.0.1"
MOST_PATIENCE: Final = 20.0
_NAMES: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.I)

_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

PAGES: Final = {"/": "main", "/beside": "beside", "/values": "values"}
"""The pages, and the module that each begins with."""

Given = Mapping[str, str]


class RequestRefused(Exception):
    """A request that is refused; `status` is the HTTP status."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ViewServer(ThreadingHTTPServer):
    """Serve one run; with `beside`, the page opens on both runs.

    With `values` it also serves a comparison of values, and opens on that if they differ or there is no run to draw.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, picture: RunView | None, port: int = 0, beside: Path | None = None, values: ValueView | None = None
    ) -> None:
        super().__init__((LOOPBACK, port), ViewRequestHandler)
        self._values = values
        self.home = "/"
        named = beside.resolve() if beside is not None else None
        self._others = OtherRuns(picture, named, has_values=values is not None) if picture is not None else None
        if beside is not None and picture is not None:
            self.home = f"/beside?{urlencode({'of': beside.resolve().name})}"
        if values is not None and (picture is None or not values.made.alike):
            self.home = "/values"
        self.token = secrets.token_urlsafe(32)
        self._for_browser = secrets.token_urlsafe(32)
        self.cookie = f"weft-{self.server_address[1]}"

    @property
    def others(self) -> OtherRuns:
        """Return all runs that can be shown: the one that was opened, and the runs beside it. RequestRefused if only
        values are served.
        """
        if self._others is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "these runs have values only, and no calls")
        return self._others

    @property
    def picture(self) -> RunView:
        """Return the view of the run that was opened. RequestRefused if only values are served."""
        return self.others.picture

    @property
    def values(self) -> ValueView:
        """Return the view of compared values. RequestRefused if this server has none."""
        if self._values is None:
            raise RequestRefused(
                HTTPStatus.NOT_FOUND, "no values of these runs were compared: see `weft compare --view`"
            )
        return self._values

    @property
    def shown(self) -> Path:
        """Return the path of the run that is shown, or of the reference if values are compared."""
        return self._others.picture.trace.path if self._others is not None else self.values.made.before.path

    @property
    def url(self) -> str:
        """Return the address of the page, with the token."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={self.token}"

    @property
    def url_for_browser(self) -> str:
        """Return an address to put on a browser's command line. All users can read it there, but only this user can use
        its token.
        """
        return f"http://{LOOPBACK}:{self.server_address[1]}/?token={self._for_browser}"

    def accepts_token(self, token: str, connection: socket.socket) -> bool:
        """Return whether a token is right. The browser's own token is right only for connections of this user."""
        is_browsers = hmac.compare_digest(token.encode(), self._for_browser.encode())
        return self.is_token(token) or (is_browsers and is_ours(connection))

    def is_token(self, token: str) -> bool:
        """Return whether a token is the one in the printed address."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def server_close(self) -> None:
        """Close the socket, and end the replay."""
        super().server_close()
        if self._others is not None:
            self._others.picture.replayed.close()

    def handle_error(self, request: Any, client_address: object) -> None:
        """Ignore a browser that closes its connection; report all other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ViewRequestHandler(BaseHTTPRequestHandler):
    """Answer one request."""

    server: ViewServer
    server_version = "weft"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    """Headers and body go out as two writes: the second would wait for the other side's late acknowledgement."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the terminal is the user's."""

    def do_GET(self) -> None:
        """Answer a GET request, or send the error."""
        self._answer_or_send_error(self._handle_get)

    def do_POST(self) -> None:
        """Make the move of the replay that a POST request asks for, or send the error."""
        self._answer_or_send_error(self._handle_move)

    def _answer_or_send_error(self, answer: Callable[[], None]) -> None:
        """Call `answer`, which sends the response. If it raises an error, send the error as the response."""
        try:
            answer()
        except RequestRefused as refused:
            self.close_connection = True  # a body may be left unread
            self._send_body(refused.status, str(refused).encode(), "text/plain; charset=utf-8")
        except (WeftError, ValueError, IndexError) as error:
            self._send_body(HTTPStatus.BAD_REQUEST, json.dumps({"error": str(error)}).encode(), "application/json")
        except ConnectionError:
            self.close_connection = True
        except Exception as error:
            text = json.dumps({"error": f"Weft failed: {type(error).__name__}: {error}"})
            self._send_body(HTTPStatus.INTERNAL_SERVER_ERROR, text.encode(), "application/json")
            raise

    def _handle_move(self) -> None:
        """Answer a POST: check that it comes from this server's page, and make the move of the replay that it
        asks for.
        """
        self._check_origin()
        self._check_token()
        # Another page can send a form without asking, but not this type of content, nor our own origin.
        if self.headers.get_content_type() != "application/json" or self.headers.get("Origin") is None:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "moves come from the page itself")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,4}", length):
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a move is at most 9999 bytes of JSON")
        name = urlsplit(self.path).path.removeprefix("/api/replay/")
        if name not in MOVES:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "the replay has no such move")
        try:
            given = json.loads(self.rfile.read(int(length)))
        except RecursionError as error:
            raise ValueError("a move is a JSON object") from error
        if not isinstance(given, dict):
            raise ValueError("a move is a JSON object")
        self.server.picture.replayed.make_move(name, given)
        self._send_body(HTTPStatus.OK, b"{}", "application/json")

    def _handle_get(self) -> None:
        """Answer a GET: exchange the token, or send a page, a file of a page, or data."""
        self._check_origin()
        where = urlsplit(self.path)
        given = {key: values[-1] for key, values in parse_qs(where.query, keep_blank_values=True).items()}
        if where.path == "/" and "token" in given:
            self._exchange_token(given["token"])
            return
        self._check_token()
        if where.path in PAGES:
            self._send_page(PAGES[where.path])
        elif where.path.startswith("/web/"):
            self._send_asset(where.path.removeprefix("/web/"))
        elif where.path.startswith("/api/"):
            self._send_data(where.path.removeprefix("/api/"), given)
        else:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "this server has no such page")

    # Who asks

    def _check_origin(self) -> None:
        """Raise RequestRefused for a request that another page sends: with another host name (DNS rebinding), or
        another origin.
        """
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _NAMES.fullmatch(hosts[0]):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "this server answers to localhost only")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not self._is_navigation():
            raise RequestRefused(HTTPStatus.FORBIDDEN, "requests of other pages are not answered")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            raise RequestRefused(HTTPStatus.FORBIDDEN, "requests of other pages are not answered")

    def _is_navigation(self) -> bool:
        """Return whether a person follows a link to the page itself. The token is checked nevertheless."""
        return self.headers.get("Sec-Fetch-Mode") == "navigate" and self.headers.get("Sec-Fetch-Dest") == "document"

    def _check_token(self) -> None:
        """Raise RequestRefused if the request's cookie does not have the token."""
        # Other servers of this machine set cookies for the same host, in any form: each is looked at for itself.
        kept = [part.strip().partition("=") for part in self.headers.get("Cookie", "").split(";")]
        if not any(name == self.server.cookie and self.server.is_token(value) for name, _, value in kept):
            raise RequestRefused(HTTPStatus.FORBIDDEN, "open the address that `weft view` printed: it holds the token")

    def _exchange_token(self, token: str) -> None:
        """Move the token from the address into a cookie, because histories and screenshots keep addresses."""
        if not self.server.accepts_token(token, self.connection):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN, "this token is not that of `weft view`, which prints a new one each time"
            )
        kept = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        # A redirect would not carry a strict cookie when the link was followed from elsewhere: the page goes on itself.
        onward = (
            '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" '
            f'content="0;url={escape(self.server.home)}"><title>Weft</title>'
        )
        self._send_body(HTTPStatus.OK, onward.encode(), "text/html; charset=utf-8", {"Set-Cookie": kept})

    # Answers

    def _send_body(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        """Send a response with its headers. `kind`: the type of the content; `more`: further headers."""
        if status == HTTPStatus.OK:
            cuts.check_for_cuts()
        headers = {**_SAFE, "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", **(more or {})}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_page(self, name: str) -> None:
        """Send a page, with a content security policy that lets only its own scripts run."""
        imports = json.dumps({"imports": {f"weft/{name}": f"/web/{name}" for name in module_names()}})
        early = "".join(f'<link rel="modulepreload" href="/web/{name}">\n' for name in module_names())
        head = (
            f'<script type="importmap">{imports}</script>\n'
            f'<link rel="stylesheet" href="/web/style.css">\n{early}'
            f'<script type="module" src="/web/{name}.js"></script>'
        )
        hashed = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; script-src 'self' 'sha256-{hashed}'; style-src 'self'; connect-src 'self'; "
            "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        body = load_page(name).replace("{{head}}", head).encode()
        self._send_body(HTTPStatus.OK, body, "text/html; charset=utf-8", {"Content-Security-Policy": policy})

    def _send_asset(self, name: str) -> None:
        """Send a module or style sheet of a page. RequestRefused if there is no file of this name."""
        body = load_assets().get(name)
        if body is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "this server has no such page")
        self._send_body(HTTPStatus.OK, body, TYPES[f".{name.rsplit('.', 1)[-1]}"])

    def _send_data(self, name: str, given: Given) -> None:
        """Send the data that the page asks for by `name`, as bytes or as JSON. `given`: the parameters of the
        address.
        """
        if name not in ANSWERS and name not in OF_OTHERS and name not in OF_VALUES:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "this server has no such page")
        try:
            if name in OF_VALUES:
                found = OF_VALUES[name](self.server.values, given)
            elif name in OF_OTHERS:
                found = OF_OTHERS[name](self.server.others, given)
            else:
                found = ANSWERS[name](self.server.others.find_view(given.get("of", "")), given)
        except KeyError as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{name} needs {error}") from None
        if isinstance(found, bytes):
            self._send_body(HTTPStatus.OK, found, "application/octet-stream")
        else:
            self._send_body(HTTPStatus.OK, json.dumps(found, default=str).encode(), "application/json")


def _parse_span(given: Given) -> tuple[float, float]:
    """Return `from` and `to` of a request as positions on an axis. ValueError if they are no numbers."""
    start, end = float(given["from"]), float(given["to"])
    if not (abs(start) < 1e18 and abs(end) < 1e18):
        raise ValueError("give `from` and `to` as numbers of nanoseconds, for example from=0&to=1000000")
    return start, end


def _parse_numbers(text: str) -> list[int]:
    """Return the numbers of `3,4`; none of an empty text."""
    return [int(word) for word in text.split(",")] if text else []


def _parse_box(text: str) -> tuple[tuple[int, int], ...]:
    """Return the part of an array that a text such as `0:10,3:4` names: (first index, end index) in each dimension."""
    sides = [[int(end) for end in word.split(":")] for word in text.split(",")]
    if any(len(side) != 2 for side in sides):
        raise ValueError(f"{text!r} does not name a box: write first:end for each dimension")
    return tuple((first, end) for first, end in sides)


ANSWERS: Final[Mapping[str, Callable[[RunView, Given], object]]] = {
    "run": lambda p, g: p.local_run_facts(),
    "axis": lambda p, g: p.axis_facts(g["axis"]),
    "window": lambda p, g: p.pack_window(g["axis"], g["lanes"], _parse_span(g), int(g["columns"]), g.get("filter", "")),
    "links": lambda p, g: p.links_between(g["axis"], *_parse_span(g), g.get("filter", "")),
    "message": lambda p, g: p.message_with_arrow(g["axis"], g["side"], int(g["row"])),
    "tip": lambda p, g: p.tooltip_facts(int(g["rank"]), int(g["event"])),
    "findings": lambda p, g: p.list_findings(g["axis"], min(float(g.get("patience", "0")), MOST_PATIENCE)),
    "event": lambda p, g: p.event_with_links(g["axis"], int(g["rank"]), int(g["event"])),
    "around": lambda p, g: p.causal_past_and_future(g["axis"], int(g["rank"]), int(g["event"])),
    "at": lambda p, g: p.longest_call_between(g["axis"], int(g["row"]), *_parse_span(g)),
    "search": lambda p, g: p.search_calls(
        g["axis"], g["filter"], float(g["near"]), int(g["row"]), g.get("back") == "1"
    ),
    "tables": lambda p, g: p.tables(g["axis"], _parse_span(g)),
    "replay": lambda p, g: p.replayed.await_state(
        p.axis_by_name(g["axis"]),
        version=int(g["version"]),
        written=int(g["written"]),
        patience=min(float(g.get("patience", "0")), MOST_PATIENCE),
    ),
}
"""What the page can ask of a run, and how it is answered."""

OF_OTHERS: Final[Mapping[str, Callable[[OtherRuns, Given], object]]] = {
    "beside": lambda o, g: o.open_beside(g["other"]).to_json(g["axis"]),
}
"""The same of a run and those beside it."""

OF_VALUES: Final[Mapping[str, Callable[[ValueView, Given], object]]] = {
    "values": lambda v, g: v.to_json(),
    "strip": lambda v, g: v.pack_states(int(g["from"]), int(g["to"]), int(g["columns"])),
    "moment": lambda v, g: v.moment_facts(int(g["at"])),
    "field": lambda v, g: v.pack_error_field(
        (int(g["at"]), int(g["layer"])),
        _parse_box(g["window"]),
        _parse_numbers(g["axes"]),
        _parse_numbers(g["most"]),
        g["unit"],
    ),
    "element": lambda v, g: v.element_facts(int(g["at"]), int(g["layer"]), tuple(_parse_numbers(g["index"]))),
}
"""The same of two runs' values."""
