"""A store for tests: moto's S3 on this machine, behind a proxy that can fail.

The proxy passes requests on to moto and counts them. A test adds faults: functions of method, path
and number of the request that return what happens instead of the answer.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Status:
    """An answer of the proxy itself."""

    code: int


@dataclass(frozen=True)
class Cut:
    """The connection ends after this many bytes of the answer's body."""

    after_bytes: int


@dataclass(frozen=True)
class Stall:
    """The request waits until the test ends."""


Fault = Callable[[str, str, int], Status | Cut | Stall | None]


@dataclass
class Asked:
    """A request that the proxy has seen."""

    method: str
    path: str
    range: str | None
    length: int = 0


@dataclass
class Proxy:
    """Starts at `with`, on a free port; forwards to the server at `to_port`."""

    to_port: int
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def __enter__(self) -> Proxy:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def forward(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                asked = Asked(self.command, self.path, self.headers.get("Range"), length)
                proxy.asked.append(asked)
                number = len(proxy.asked)
                happens = [fault(self.command, self.path, number) for fault in proxy.faults]
                fault = next((found for found in happens if found is not None), None)
                if isinstance(fault, Stall):
                    proxy.over.wait(60)
                    self.close_connection = True
                    return
                if isinstance(fault, Status):
                    self.send_response(fault.code)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                upstream = http.client.HTTPConnection(HOST, proxy.to_port, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name != "Connection"}
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                data = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                said = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", said or str(len(data)))
                self.end_headers()
                if isinstance(fault, Cut):
                    self.wfile.write(data[: fault.after_bytes])
                    self.wfile.flush()
                    self.connection.shutdown(2)
                    self.close_connection = True
                    return
                if self.command != "HEAD":
                    self.wfile.write(data)
                upstream.close()

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that was killed leaves half a connection."""

        self.server = Server((HOST, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()

    def gets(self, ending: str) -> list[tuple[int, int]]:
        """The ranges of the GETs of an object, as half-open intervals."""
        found = []
        for asked in self.asked:
            match = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.range or "")
            if asked.method == "GET" and asked.path.endswith(ending) and match:
                found.append((int(match[1]), int(match[2]) + 1))
        return found


def times(count: int, method: str, ending: str, what: Status | Cut | Stall) -> Fault:
    """The first `count` requests of this method for a matching path get `what`."""
    left = [count]

    def fault(asked: str, path: str, _number: int) -> Status | Cut | Stall | None:
        if asked != method or not path.split("?")[0].endswith(ending) or left[0] == 0:
            return None
        left[0] -= 1
        return what

    return fault


@dataclass
class Web:
    """A plain web server with one file, which starts at `with`."""

    body: bytes
    has_ranges: bool = True
    has_tag: bool = True
    dated: str = "Wed, 21 Oct 2026 07:28:00 GMT"
    gets: int = 0

    def __enter__(self) -> Web:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.answer(200, web.body, is_head=True)

            def do_GET(self) -> None:
                web.gets += 1
                body = web.body
                match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
                if match is None or not web.has_ranges:
                    self.answer(200, body)
                    return
                start, end = int(match[1]), min(int(match[2]) + 1, len(body))
                place = f"bytes {start}-{end - 1}/{len(body)}"
                self.answer(206, body[start:end], place)

            def answer(self, code: int, body: bytes, place: str = "", is_head: bool = False) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Last-Modified", web.dated)
                if place:
                    self.send_header("Content-Range", place)
                if web.has_tag:
                    self.send_header("ETag", f'"{hash(web.body)}"')
                self.end_headers()
                if not is_head:
                    self.wfile.write(body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that was stopped leaves half a connection."""

        self.server = Server((HOST, 0), Handler)
        self.address = f"http://{HOST}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
