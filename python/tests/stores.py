"""Servers for tests on this machine: stores behind a proxy that can fail, and a web server.

The proxy passes requests on to a store and counts them. A test adds faults: functions of method, path
and number of the request that return what happens instead of the answer. `Azurite` and `FakeGcs` are
the emulators that `scripts/setup.sh` installs, if it can.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

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
    google: FakeGcs | None = None
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
                asked = Asked(self.command, unquote(self.path), self.headers.get("Range"), length)
                proxy.asked.append(asked)
                number = len(proxy.asked)
                happens = [fault(self.command, asked.path, number) for fault in proxy.faults]
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
                own = proxy.google and proxy.google.upload(self.command, self.path, body)
                if own:
                    self.send_response(own[0])
                    self.send_header("Content-Length", str(len(own[1])))
                    self.send_header("ETag", '"etag"')
                    self.end_headers()
                    self.wfile.write(own[1])
                    return
                upstream = http.client.HTTPConnection(HOST, proxy.to_port, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name != "Connection"}
                if proxy.google:
                    # The emulator insists on its own name, and on the time.
                    headers = {name: value for name, value in headers.items() if name.lower() != "host"}
                    headers |= {"Host": f"{HOST}:{proxy.to_port}", "Date": formatdate(usegmt=True)}
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
    #: The server speaks TLS with this certificate, if there is one.
    tls: ssl.SSLContext | None = None

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
        scheme = "http"
        if self.tls is not None:
            scheme, self.server.socket = "https", self.tls.wrap_socket(self.server.socket, server_side=True)
        self.address = f"{scheme}://{HOST}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


#: The folder of the emulators.
SERVERS = Path(sys.prefix) / "servers"


def program(name: str, inside: str) -> str | None:
    """An emulator's program: the installed one, or one on the path."""
    installed = SERVERS / inside
    return str(installed) if installed.exists() else shutil.which(name)


class Emulator:
    """A server that is a program, and ends with `close`."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return
            assert self.process.poll() is None, f"{words[0]} has ended"
            time.sleep(0.05)
        raise AssertionError(f"{words[0]} does not listen")

    port: int

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """The body of an answer, which must be a success."""
        address = f"http://{HOST}:{self.port}{path}"
        request = urllib.request.Request(address, body or None, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            read: bytes = answer.read()
            return read


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Azurite(Emulator):
    """Azure's own emulator of Blob Storage, with the account that it always has."""

    PROGRAM = ("azurite-blob", "node_modules/.bin/azurite-blob")
    ACCOUNT = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    #: The requests that send a part, and that make the object of the parts.
    PART, LAST = ("PUT", "comp=block&"), ("PUT", "comp=blocklist")

    def __init__(self, program: str) -> None:
        self.port = free_port()
        super().__init__([
            program, "--blobHost", HOST, "--blobPort", str(self.port), "--inMemoryPersistence",
            "--skipApiVersionCheck", "--silent",
        ])

    def variables(self, port: int) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": self.KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://{HOST}:{port}/{self.ACCOUNT}", "AZURE_ALLOW_HTTP": "true",
        }

    def url(self, bucket: str, key: str) -> str:
        return f"az://{bucket}/{key}"

    def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> bytes:
        """A request that is signed with the key of the account."""
        own = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        if method == "PUT" and not query:
            own["x-ms-blob-type"] = "BlockBlob"
        lines = [f"{name}:{value}" for name, value in sorted(own.items())]
        place = [f"/{self.ACCOUNT}/{self.ACCOUNT}{path}", *sorted(query.replace("=", ":").split("&"))]
        length = str(len(body)) if body else ""
        kind = "application/octet-stream" if body else ""
        signed = [method, "", "", length, "", kind, "", "", "", "", "", "", *lines, *filter(None, place)]
        digest = hmac.new(base64.b64decode(self.KEY), "\n".join(signed).encode(), hashlib.sha256)
        signature = base64.b64encode(digest.digest()).decode()
        headers = {**own, "Authorization": f"SharedKey {self.ACCOUNT}:{signature}"}
        if body:
            headers["Content-Type"] = kind
        return self.answer(method, f"/{self.ACCOUNT}{path}" + (f"?{query}" if query else ""), body, headers)

    def make(self, bucket: str) -> None:
        self.ask("PUT", f"/{bucket}", "restype=container")

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self.ask("PUT", f"/{bucket}/{quote(key)}", body=body)

    def get(self, bucket: str, key: str) -> bytes:
        return self.ask("GET", f"/{bucket}/{quote(key)}")

    def keys(self, bucket: str) -> list[str]:
        listed = self.ask("GET", f"/{bucket}", "comp=list&restype=container").decode()
        return re.findall("<Name>([^<]*)</Name>", listed)


class FakeGcs(Emulator):
    """fake-gcs-server, an emulator of Google Cloud Storage."""

    PROGRAM = ("fake-gcs-server", "bin/fake-gcs-server")
    PART, LAST = ("PUT", "partNumber="), ("POST", "uploadId=")

    def __init__(self, program: str) -> None:
        self.port = free_port()
        super().__init__([
            program, "-scheme", "http", "-host", HOST, "-port", str(self.port), "-backend", "memory",
            "-public-host", f"{HOST}:{self.port}", "-log-level", "error",
        ])
        self.uploads: dict[str, dict[int, bytes] | None] = {}

    def variables(self, port: int) -> dict[str, str]:
        account = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        return {
            "GOOGLE_BASE_URL": f"http://{HOST}:{port}", "GOOGLE_ALLOW_HTTP": "true",
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account),
        }

    def url(self, bucket: str, key: str) -> str:
        return f"gs://{bucket}/{key}"

    def upload(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """The answer to a request of Google's XML interface for uploads, which the emulator lacks."""
        place = urlsplit(path)
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        bucket, _, key = unquote(place.path).lstrip("/").partition("/")
        if method == "PUT" and not query:
            self.put(bucket, key, body)
            return 200, b""
        if "uploads" in query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {}
            text = f"<UploadId>{name}</UploadId>"
            return 200, f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>".encode()
        if "uploadId" not in query:
            return None
        parts = self.uploads.get(query["uploadId"])
        if parts is None:
            return 404, b""
        if method == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, b""
        self.uploads[query["uploadId"]] = None
        if method == "DELETE":
            return 204, b""
        numbers = re.findall(rb"<PartNumber>(\d+)", body)
        self.put(bucket, key, b"".join(parts[int(number)] for number in numbers))
        text = "<ETag>etag</ETag>"
        return 200, f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>".encode()

    def unfinished(self) -> list[str]:
        """Uploads that were begun and neither completed nor aborted."""
        return [name for name, parts in self.uploads.items() if parts is not None]

    def make(self, bucket: str) -> None:
        body = json.dumps({"name": bucket}).encode()
        self.answer("POST", "/storage/v1/b?project=p", body, {"Content-Type": "application/json"})

    def put(self, bucket: str, key: str, body: bytes) -> None:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        self.answer("POST", path, body, {"Content-Type": "application/octet-stream"})

    def get(self, bucket: str, key: str) -> bytes:
        return self.answer("GET", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}?alt=media", b"", {})

    def keys(self, bucket: str) -> list[str]:
        listed = json.loads(self.answer("GET", f"/storage/v1/b/{bucket}/o", b"", {}))
        return [found["name"] for found in listed.get("items", [])]
