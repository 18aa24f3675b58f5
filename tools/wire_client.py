"""Raw HTTP, SSE and WebSocket over plain sockets, for tools and tests that must end a connection in an exact way.

Standard library only. One object is one TCP connection; none is shared between threads. Never retries, never
pools, never hides a close: what the peer did is what the caller sees.
"""

import base64
import json
import os
import re
import select
import socket
import struct
import time
import urllib.parse

KILL_KINDS = ("fin", "rst", "half-close")


def kill(sock, kind):
    """Ends a connection the way a client dies. `half-close` leaves the receiving side open: close it later."""
    if kind == "rst":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    elif kind == "half-close":
        sock.shutdown(socket.SHUT_WR)
    elif kind == "fin":
        # Closing with unread bytes would send a reset instead.
        sock.setblocking(False)
        try:
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass
        sock.close()
    else:
        raise ValueError(f"unknown kind of kill: {kind}")


class Connection:
    """One TCP connection with a byte buffer."""

    def __init__(self, url, timeout_s=120.0, receive_buffer_bytes=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port or 80
        ipv6 = ":" in self.host
        self.authority = f"[{self.host}]:{self.port}" if ipv6 else f"{self.host}:{self.port}"
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.sock.settimeout(timeout_s)
        self.sock.connect((self.host, self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data):
        self.sock.sendall(data)

    def fill(self):
        """Reads what is there (at least one byte) into the buffer; raises EOFError at the end."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self.buffer += data

    def read_exactly(self, count):
        while len(self.buffer) < count:
            self.fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_until(self, mark):
        while mark not in self.buffer:
            self.fill()
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def readable(self, timeout_s):
        return bool(self.buffer) or bool(select.select([self.sock], [], [], timeout_s)[0])

    def kill(self, kind):
        kill(self.sock, kind)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Http(Connection):
    """HTTP/1.1 requests one after another on one connection."""

    def request(self, method, path, body=None, headers=()):
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.authority}"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def read_head(self):
        head = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.status = int(head[0].split(" ")[1])
        self.headers = {name.strip().lower(): value.strip()
                        for name, value in (line.split(":", 1) for line in head[1:])}
        return self.status

    def chunks(self):
        """Body pieces as they arrive, whatever the framing."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while True:
                size = int(self.read_until(b"\r\n").split(b";")[0], 16)
                data = self.read_exactly(size)
                self.read_exactly(2)
                if size == 0:
                    return
                yield data
        elif "content-length" in self.headers:
            yield self.read_exactly(int(self.headers["content-length"]))
        else:
            try:
                while True:
                    if not self.buffer:
                        self.fill()
                    data, self.buffer = self.buffer, b""
                    yield data
            except EOFError:
                return

    def read_body(self):
        return b"".join(self.chunks())

    def call(self, method, path, body=None, headers=()):
        """One whole exchange: (status, decoded JSON or bytes)."""
        self.request(method, path, body, headers)
        self.read_head()
        data = self.read_body()
        if "json" in self.headers.get("content-type", ""):
            return self.status, json.loads(data)
        return self.status, data

    def events(self):
        """The `data:` payloads of an SSE body, decoded; `[DONE]` as that string; comments skipped."""
        text = b""
        for piece in self.chunks():
            text += piece
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                for line in event.split(b"\n"):
                    if line.startswith(b"data: "):
                        payload = line[6:]
                        yield "[DONE]" if payload == b"[DONE]" else json.loads(payload)
        if text.strip():
            raise ValueError(f"the stream ended inside an event: {text[:80]!r}")


class WebSocket(Connection):
    """Text frames of one WebSocket; answers pings while reading."""

    def open(self, path="/v1/responses", headers=()):
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.authority}", "Upgrade: websocket",
                 "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        head = self.read_until(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        if status != 101:
            raise ConnectionError(f"the upgrade was refused with status {status}")
        return self

    def send_frame(self, opcode, data):
        mask = os.urandom(4)
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        masked = bytes(byte ^ mask[i & 3] for i, byte in enumerate(data))
        self.send(head + mask + masked)

    def send_json(self, value):
        self.send_frame(1, json.dumps(value).encode())

    def read_frame(self):
        """(opcode, data) of one whole message or control frame."""
        data, first_opcode = b"", None
        while True:
            head = self.read_exactly(2)
            final, opcode, size = head[0] & 0x80, head[0] & 0x0F, head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self.read_exactly(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.read_exactly(8))
            payload = self.read_exactly(size)
            if opcode >= 8:
                return opcode, payload
            first_opcode = opcode or first_opcode
            data += payload
            if final:
                return first_opcode, data

    def events(self):
        """JSON messages until the peer closes; the close code is kept in `close_code`."""
        self.close_code = None
        while True:
            opcode, data = self.read_frame()
            if opcode == 9:
                self.send_frame(10, data)
            elif opcode == 8:
                self.close_code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                return
            elif opcode == 1:
                yield json.loads(data)


LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One scrape of a Prometheus text page. Parses a family only when it is asked for: polling must stay cheap."""

    def __init__(self, text):
        self.text = text

    def samples(self, name):
        """(labels, value) of every sample of that name."""
        for match in re.finditer(rf"^{re.escape(name)}(?:\{{(.*)\}})? (\S+)$", self.text, re.M):
            yield dict(LABEL.findall(match[1] or "")), float(match[2])

    def total(self, name, **labels):
        """Sum of the samples of that name that carry these labels; 0 when there is none."""
        return sum(value for have, value in self.samples(name)
                   if all(have.get(k) == v for k, v in labels.items()))

    def has(self, name):
        return any(True for _ in self.samples(name))

    def buckets(self, name):
        """Cumulative histogram: [(upper bound, count)], ascending."""
        sums = {}
        for labels, value in self.samples(name + "_bucket"):
            bound = float(labels["le"])
            sums[bound] = sums.get(bound, 0.0) + value
        return sorted(sums.items())


class Scraper:
    """Reads one metrics page again and again over one kept connection."""

    def __init__(self, url, headers=()):
        self.url, self.headers, self.http = url, headers, None

    def scrape(self):
        for attempt in (1, 2):
            try:
                if self.http is None:
                    self.http = Http(self.url, timeout_s=120)
                status, body = self.http.call("GET", "/metrics", headers=self.headers)
                if status != 200:
                    raise ConnectionError(f"/metrics answered {status}")
                return Metrics(body.decode())
            except (OSError, EOFError):
                self.http = None
                if attempt == 2:
                    raise

    def wait_for(self, condition, timeout_s, interval_s=0.01):
        """Scrapes until the condition holds; returns that scrape, or None when the time is over."""
        deadline = time.monotonic() + timeout_s
        while True:
            metrics = self.scrape()
            if condition(metrics):
                return metrics
            if time.monotonic() > deadline:
                return None
            time.sleep(interval_s)
