"""One real `troupe serve` process on a free port, and what every test asks of it.

Owns the process from start to exit code. `stop()` checks the promise: nothing running, nothing waiting, every
allocated block released, none leaked, exit code 0 after SIGTERM, no error in the log.
"""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from wire_client import Http, Scraper, WebSocket

root = pathlib.Path(__file__).resolve().parents[2]
binary = os.environ.get("TROUPE_BINARY", str(root / "build/release/bin/troupe"))
default_model = os.environ.get("TROUPE_MODEL", str(root / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))

HANG_S = 300  # a limit for what hangs: no test fails because the machine is busy

ALLOCATED = "troupe_kv_blocks_allocated_total"
RELEASED = "troupe_kv_blocks_released_total"
USED = "troupe_kv_blocks_used"
RUNNING = "troupe_num_requests_running"
WAITING = "troupe_num_requests_waiting"
LEAKED = "troupe_kv_leaked_blocks"


def is_idle(metrics):
    return (metrics.total(RUNNING) == 0 and metrics.total(WAITING) == 0 and metrics.total(USED) == 0)


def answered(metrics):
    """Requests that ended with an answer, told by its length or a stop."""
    return sum(metrics.total("troupe_request_success_total", finished_reason=reason) for reason in ("length", "stop"))


class TroupeProcess:
    def __init__(self, *options, model=default_model, launcher=()):
        if not pathlib.Path(model).exists():
            raise FileNotFoundError(f"no model at {model}: run tools/setup or set TROUPE_MODEL")
        self.process = subprocess.Popen(
            [*launcher, binary, "serve", model, "--port", "0", "--json", *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.events, self.errors = [], []
        self.opened = []  # connections of begin(), closed when a test ends
        self.ready_event = threading.Event()
        self.readers = [threading.Thread(target=self._read, args=args, daemon=True)
                        for args in ((self.process.stdout, self.events), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()
        if not self.ready_event.wait(HANG_S):
            self.process.kill()
            raise RuntimeError(f"not ready in {HANG_S} s; stderr: {''.join(self.errors[-5:])}")
        if self.ready is None:
            raise RuntimeError(f"ended before it was ready, exit code {self.process.wait()}; "
                               f"stderr: {''.join(self.errors[-5:])}")
        self.url = self.ready["url"]
        self.scraper = Scraper(self.url)

    ready = None

    def _read(self, pipe, lines):
        for line in pipe:
            lines.append(line)
            if '"ready"' in line and self.ready is None:
                event = json.loads(line)
                if event.get("event") == "ready":
                    self.ready = event
                    self.ready_event.set()
        if pipe is self.process.stdout:
            self.ready_event.set()

    def wait_for_line(self, lines, part, timeout_s=HANG_S):
        """The first of `lines` (events or errors) with this in it: the two pipes are read by threads of their own."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for line in list(lines):
                if part in line:
                    return line
            time.sleep(0.01)
        raise AssertionError(f"not within {timeout_s} s: a line with {part!r}")

    # Requests

    def call(self, path, body=None, method=None, headers=(), timeout_s=HANG_S):
        """(status, JSON) of one exchange on a connection of its own."""
        with Http(self.url, timeout_s=timeout_s) as http:
            return http.call(method or ("GET" if body is None else "POST"), path, body, headers)

    def complete(self, prompt, max_tokens, **fields):
        """Status 200 or a failed test; the whole reply."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **fields}
        status, reply = self.call("/v1/completions", body)
        assert status == 200, reply
        return reply

    def text(self, prompt, max_tokens, **fields):
        return self.complete(prompt, max_tokens, **fields)["choices"][0]["text"]

    def texts_at_once(self, requests):
        """Texts of requests (prompt, max_tokens, fields) that all run side by side."""
        connections = [self.begin("http", prompt, tokens, **fields) for prompt, tokens, fields in requests]
        texts = []
        for http in connections:
            assert http.read_head() == 200
            texts.append(json.loads(http.read_body())["choices"][0]["text"])
        return texts

    def begin(self, transport, prompt, max_tokens, **fields):
        """Sends one generation and returns its open connection: `sse`, `http` (plain reply) or `ws`."""
        if transport == "ws":
            self.opened.append(socket := WebSocket(self.url).open())
            socket.send_json({"type": "response.create", "input": prompt, "max_output_tokens": max_tokens,
                              "temperature": 0, "ignore_eos": True, **fields})
            return socket
        self.opened.append(http := Http(self.url))
        http.request("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True,
            "stream": transport == "sse", **fields})
        return http

    def stream_text(self, prompt, max_tokens, on_event=None, **fields):
        """The text of one SSE completion, read to its end."""
        with self.begin("sse", prompt, max_tokens, **fields) as http:
            assert http.read_head() == 200, http.read_body()
            text, last = "", None
            for event in http.events():
                last = event
                if event != "[DONE]" and event["choices"]:
                    text += event["choices"][0]["text"]
                if on_event:
                    on_event(event)
            assert last == "[DONE]"
            return text

    def count_tokens(self, text):
        status, reply = self.call("/tokenize", {"prompt": text})
        assert status == 200, reply
        return reply["count"]

    def close_connections(self):
        """What a test left open, also one that failed."""
        for connection in self.opened:
            connection.close()
        self.opened.clear()

    # Metrics

    def metrics(self):
        return self.scraper.scrape()

    def value(self, name, **labels):
        return self.metrics().total(name, **labels)

    def wait_for(self, condition, what, timeout_s=HANG_S):
        metrics = self.scraper.wait_for(condition, timeout_s)
        if metrics is None:
            now = self.metrics()
            raise AssertionError(
                f"not within {timeout_s} s: {what}; running {now.total(RUNNING)}, waiting {now.total(WAITING)}, "
                f"used {now.total(USED)}, allocated {now.total(ALLOCATED)}, released {now.total(RELEASED)}")
        return metrics

    def wait_idle(self, timeout_s=HANG_S):
        """Idle, with the books balanced."""
        metrics = self.wait_for(is_idle, "idle", timeout_s)
        assert metrics.total(ALLOCATED) == metrics.total(RELEASED), "allocated and released differ at rest"
        assert metrics.total(LEAKED) == 0
        assert metrics.total("troupe_invariant_violations_total") == 0
        return metrics

    def disconnects(self, metrics=None, **labels):
        return (metrics or self.metrics()).total("troupe_client_disconnects_total", **labels)

    def wait_gone(self, before, count=1):
        """Idle, and since the metrics `before` that many clients were counted as gone and no request as answered."""
        after = self.wait_for(lambda m: is_idle(m) and self.disconnects(m) - self.disconnects(before) == count,
                              f"idle, and {count} clients gone")
        assert answered(after) == answered(before), "a request went on to its end without its client"
        return self.wait_idle()

    # End

    def wait_exit(self, timeout_s=HANG_S):
        code = self.process.wait(timeout_s)
        for reader in self.readers:
            reader.join(HANG_S)
        return code

    def error_lines(self):
        found = []
        for line in self.errors + self.events:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "error" in (event.get("level"), event.get("event")):
                found.append(line.strip())
        return found

    def stop(self):
        """The end of every test: the promise is checked, then the process ends by SIGTERM with exit code 0."""
        if self.process.poll() is not None:
            raise AssertionError(f"the server died during the test, exit code {self.process.returncode}; "
                                 f"stderr: {''.join(self.errors[-20:])}")
        try:
            self.close_connections()
            self.wait_idle()
            self.process.send_signal(signal.SIGTERM)
            code = self.wait_exit()
        finally:
            self.kill()
        assert code == 0, f"exit code {code} after SIGTERM; stderr: {''.join(self.errors[-20:])}"
        assert self.error_lines() == []

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def words(count, seed=0):
    """A prompt of that many common words, different for each seed, the same on every machine."""
    vocabulary = ("the river and a small house near green hills where people often talk about old trees "
                  "under bright stars while children play with water stones birds or bread").split()
    state, picked = seed * 2654435761 % (1 << 32) + 1, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % (1 << 31)
        picked.append(vocabulary[(state >> 16) % len(vocabulary)])
    return " ".join(picked)
