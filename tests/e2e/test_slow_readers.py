"""Clients that read too slowly: what waits for them is bounded, they end by name at a limit, nobody else notices."""

import pathlib
import threading
import time

from troupe_process import HANG_S, words
from wire_client import Http, WebSocket

SLOW = "troupe_slow_readers_total"
NEIGHBOUR = dict(prompt="Here is a list of animals:", max_tokens=60)
READERS = 16


def resident_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def begin_unread(server, transport, i, max_tokens):
    """One request over a connection with a small window, nothing of its answer read yet."""
    connection = (WebSocket if transport == "ws" else Http)(server.url, receive_buffer_bytes=4096)
    server.opened.append(connection)
    if transport == "ws":
        connection.open()
        connection.send_json({"type": "response.create", "input": f"Story {i}:", "max_output_tokens": max_tokens,
                              "temperature": 0, "ignore_eos": True})
    else:
        prompt = f"Story {i}:" if transport == "sse" else words(500, i)  # scored and shown, with all of its tokens
        connection.request("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": 5,
            "stream": transport == "sse", "echo": transport == "http"})
    return connection


def drip(connections, over):
    """One byte a second of each."""
    while not over.wait(1):
        for connection in connections:
            try:
                connection.sock.recv(1)
            except OSError:
                pass


def test_C050_sixteen_stalled_and_dripping_readers_end_by_name_and_memory_stays_flat(serve):
    server = serve("--max-num-seqs", READERS + 1, "--num-kv-blocks", 1600, "--send-buffer", "8KiB",
                   "--max-outbound-bytes", "16KiB", "--client-send-timeout", 3, "--client-drain-timeout", 6,
                   "--reader-stall-timeout", 4)
    solo = server.text(**NEIGHBOUR)
    warm = [server.begin("http", words(30, i), 8, logprobs=5) for i in range(READERS)]
    for http in warm:
        assert http.read_head() == 200
        http.read_body()
    before_mib = resident_mib(server)
    # A plain reply is written when it is complete: 500 tokens with log-probabilities are several times the buffers.
    transports = ["sse", "ws", "http", "sse"] * (READERS // 4)
    readers = [begin_unread(server, transport, i, 8 if transport == "http" else 4000)
               for i, transport in enumerate(transports)]
    over = threading.Event()
    dripping = threading.Thread(target=drip, args=(readers[::2], over))
    dripping.start()
    most_mib, until = 0, time.monotonic() + HANG_S
    text = []
    neighbour = threading.Thread(target=lambda: text.append(server.stream_text(**NEIGHBOUR)))
    neighbour.start()
    while server.value(SLOW) < READERS and time.monotonic() < until:
        most_mib = max(most_mib, resident_mib(server))
        time.sleep(0.05)
    over.set()
    dripping.join()
    neighbour.join(300)
    metrics = server.wait_idle()
    counts = {transport: metrics.total(SLOW, transport=transport) for transport in ("sse", "ws", "http")}
    assert counts == {"sse": READERS / 2, "ws": READERS / 4, "http": READERS / 4}
    assert text == [solo]
    print(f"resident: {before_mib:.0f} MiB before, at most {most_mib:.0f} MiB with {READERS} slow readers")
    assert most_mib - before_mib < 24


def test_a_slow_but_steady_reader_gets_its_whole_answer(serve):
    server = serve("--send-buffer", "8KiB", "--max-outbound-bytes", "4KiB", "--client-send-timeout", 60,
                   "--reader-stall-timeout", 60)
    fields = dict(prompt="A long story:", max_tokens=150, temperature=0, ignore_eos=True, logprobs=5)
    solo = server.complete(**fields)
    http = Http(server.url, receive_buffer_bytes=4096)
    server.opened.append(http)
    http.request("POST", "/v1/completions", {**fields, "stream": True})
    assert http.read_head() == 200
    text, tokens, events = "", [], 0
    for event in http.events():
        events += 1
        if event != "[DONE]" and event["choices"]:
            text += event["choices"][0]["text"]
            tokens += (event["choices"][0]["logprobs"] or {"tokens": []})["tokens"]
        time.sleep(0.1 if events < 40 else 0.02)  # slower than any machine's tokens, at first
    assert text == solo["choices"][0]["text"]
    assert tokens == solo["choices"][0]["logprobs"]["tokens"]
    assert events < 140, "nothing was joined, so the reader was not slow"
    assert server.value(SLOW) == 0
