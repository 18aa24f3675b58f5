"""Public failures of servers of this kind, by their case ids: half-open clients, equal ids, neighbours, slow readers,
overload, shutdown."""

import concurrent.futures
import ctypes
import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from troupe_process import RUNNING, WAITING, TroupeProcess, words
from wire_client import Http, WebSocket

SLOW = "troupe_slow_readers_total"


def fall_silent(connection):
    """The cable is pulled: no packet reaches this side any more, so that nothing is acknowledged either."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    connection.sock.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER


def resident_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def test_C028_a_half_open_client_holds_the_only_place_no_longer_than_the_limits_say(serve):
    server = serve("--max-num-seqs", 1, "--send-buffer", "16KiB", "--client-send-timeout", 0.7,
                   "--tcp-user-timeout", 1.5, "--tcp-keepalive", 1)
    prompt = words(900)
    fields = {"stream": True, "max_tokens": 7000, "ignore_eos": True, "logprobs": 5}

    def stopped_reading():
        http = Http(server.url, receive_buffer_bytes=4096)
        server.opened.append(http)
        http.request("POST", "/v1/completions", {"prompt": prompt, **fields})
        http.sock.shutdown(socket.SHUT_RD)
        server.wait_for(lambda m: m.total(RUNNING) == 1, "it runs")
        return 8

    def stopped_process():
        body = json.dumps({"prompt": prompt, **fields})
        program = ("import socket, sys\n"
                   "s = socket.socket()\n"
                   "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n"
                   "s.connect(('127.0.0.1', int(sys.argv[1])))\n"
                   "s.sendall(sys.stdin.buffer.read())\n"
                   "while s.recv(100): pass\n")
        client = subprocess.Popen([sys.executable, "-c", program, str(server.ready["port"])], stdin=subprocess.PIPE)
        processes.append(client)
        client.stdin.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
        client.stdin.close()
        server.wait_for(lambda m: m.total(RUNNING) == 1, "it runs")
        client.send_signal(signal.SIGSTOP)
        return 8

    def reset():
        http = server.begin("sse", prompt, 7000)
        server.wait_for(lambda m: m.total(RUNNING) == 1, "it runs")
        http.kill("rst")
        return 1

    def pulled_cable():
        http = server.begin("sse", prompt, 7000, logprobs=5)
        server.wait_for(lambda m: m.total(RUNNING) == 1, "it runs")
        fall_silent(http)
        return 8

    processes = []
    for abandon in (stopped_reading, stopped_process, reset, pulled_cable):
        allowed_s = abandon()
        server.wait_for(lambda m: m.total(RUNNING) == 0, f"{abandon.__name__} gives the place back", allowed_s)
        assert server.text("Hello", 4)
    assert server.value(SLOW, transport="sse") >= 2, "those that stop reading have a name of their own"
    for process in processes:
        process.kill()
        process.wait()


def test_C041_two_requests_with_one_id_of_the_clients_get_their_own_texts(server):
    prompts = ["The capital of France is", "A list of colours: red,"]
    alone = [server.text(prompt, 40) for prompt in prompts]

    def ask(prompt):
        with Http(server.url) as http:
            status, reply = http.call("POST", "/v1/completions", {
                "prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True}, [("X-Request-Id", "same")])
            return status, reply["choices"][0]["text"], http.headers["x-request-id"], http.headers["x-troupe-id"]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, prompts)
    assert [first[1], second[1]] == alone
    assert first[0] == second[0] == 200 and first[2] == second[2] == "same" and first[3] != second[3]
    assert "} -" not in server.metrics().text, "a negative metric"


def test_C043_a_cancel_of_an_unknown_or_finished_id_changes_nothing(server):
    with server.begin("sse", "A story:", 10) as http:
        assert http.read_head() == 200
        over = http.headers["x-troupe-id"]
        list(http.events())
    with server.begin("sse", "A story:", 60) as neighbour:
        assert neighbour.read_head() == 200
        assert server.call("/v1/requests/cmpl-unknown/cancel", {})[0] == 404
        status, reply = server.call(f"/v1/requests/{over}/cancel", {})
        assert status == 200 and reply["cancelled"] is False
        events = list(neighbour.events())
        assert events[-1] == "[DONE]" and len(events) > 50


def test_C046_with_every_feature_on_the_first_request_may_be_aborted(serve):
    server = serve("--num-kv-blocks", 300, "--kv-offloading-size", "64MiB", "--max-num-batched-tokens", 64)
    for transport, fields in (("sse", {"n": 3, "logprobs": 2, "echo": True}), ("http", {"n": 2, "seed": 1}), ("ws", {})):
        victim = server.begin(transport, words(200), 400, **fields)
        server.wait_for(lambda m: m.total(RUNNING) > 0, "it runs")
        victim.kill("rst")
        server.wait_idle()
    assert server.text("Hello", 4)


def test_C047_those_who_leave_the_queue_never_stop_the_stream_that_runs(serve):
    server = serve("--max-num-seqs", 1)
    alone = server.text("Once upon a time", 400)
    events = []
    a_text = []
    a = threading.Thread(target=lambda: a_text.append(server.stream_text("Once upon a time", 400, events.append)))
    a.start()
    server.wait_for(lambda m: m.total(RUNNING) == 1, "A runs")
    for i in range(10):
        b = server.begin(("sse", "http", "ws")[i % 3], f"Request {i}:", 200)
        server.wait_for(lambda m: m.total(WAITING) == 1, "B waits")
        seen = len(events)
        b.kill(("fin", "rst")[i % 2])
        server.wait_for(lambda m: m.total(WAITING) == 0, "B left")
        while a.is_alive() and len(events) == seen:  # A goes on
            time.sleep(0.001)
    a.join(300)
    assert a_text == [alone]


def test_C049_sixteen_answers_at_once_are_those_of_their_own_prompts(server):
    names = [f"{a}{b}" for a in ("blor", "quim", "zath", "vonk") for b in ("fex", "dap", "lun", "mig")]
    prompts = [f"{words(1 + 13 * i, i)}. The magic word is {name}. Repeat it: {name}, {name}, {name},"
               for i, name in enumerate(names)]
    alone = [server.text(prompt, 10) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda prompt: server.text(prompt, 10), prompts))
    assert together == alone
    for i, text in enumerate(together):
        assert not [name for name in names if name in text and name != names[i]]
    assert sum(name in text for name, text in zip(names, together)) >= 8, "the prompts do not do what they are for"


def test_C136_C137_chunk_size_company_and_prefix_cache_never_change_an_answer(serve):
    prompt = words(60) + ". The answer is"

    def ask(server, seed=None):
        text = prompt if seed is None else words(3 + 9 * (seed % 5), seed)
        choice = server.complete(text, 8, logprobs=1)["choices"][0]
        return choice["text"], choice["logprobs"]["token_logprobs"]  # equal to the last bit that is printed

    answers = {}
    for chunk, companies in ((16, (7,)), (512, (1, 31))):
        server = serve("--max-num-batched-tokens", chunk, "--max-num-seqs", 32)
        answers[chunk, "alone"] = ask(server)
        for others in companies:
            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                company = [pool.submit(ask, server, seed) for seed in range(others)]
                answers[chunk, others] = ask(server)  # with its prefix in the cache
                for one in company:
                    one.result()
    alone = answers[512, "alone"]
    assert all(answer == alone for answer in answers.values()), [k for k, v in answers.items() if v != alone]


def test_C139_a_seed_leaves_the_temperature_alone(server):
    fields = {"prompt": "Once upon a time", "max_tokens": 24, "ignore_eos": True}

    def ask(**more):
        status, reply = server.call("/v1/completions", {**fields, **more})
        assert status == 200
        return reply["choices"][0]["text"]

    for temperature in ({"temperature": 1}, {}):  # 1 is the default
        texts = [ask(seed=seed, **temperature) for seed in (1, 2, 3)]
        assert len(set(texts)) == 3
        assert [ask(seed=seed, **temperature) for seed in (1, 2, 3)] == texts
    greedy = {ask(seed=seed, temperature=0) for seed in (1, 2, 3)}
    assert len(greedy) == 1 and greedy.isdisjoint(texts)


def test_C161_overload_is_refused_at_once_by_name_and_the_accepted_complete(serve):
    queue, clients = 20, 300
    server = serve("--max-num-seqs", 4, "--max-num-queued-reqs", queue, "--num-kv-blocks", 600)
    server.text("Hello", 4)
    before_mib = resident_mib(server)
    running = [server.begin("sse", f"Long {i}:", 2000) for i in range(4)]
    server.wait_for(lambda m: m.total(RUNNING) == 4, "the places are taken")

    def refused(metrics):
        return metrics.total("troupe_http_requests_total", status="503")

    crowd = [server.begin(("sse", "http")[i % 2], f"Request {i}:", 3) for i in range(clients)]
    server.wait_for(lambda m: refused(m) + m.total(WAITING) == clients, "each is refused or waits")
    for http in running:
        http.kill("rst")
    statuses = []
    for http in crowd:
        statuses.append(http.read_head())
        body = http.read_body()
        if statuses[-1] == 200:
            assert body.rstrip().endswith(b"[DONE]") or json.loads(body)["usage"]["completion_tokens"] == 3
            continue
        assert statuses[-1] == 503 and http.headers["content-type"].startswith("application/json")
        assert int(http.headers["retry-after"]) >= 1
        assert json.loads(body)["error"]["code"] == "server_is_overloaded"
    assert queue <= statuses.count(200) <= queue + 4
    server.wait_idle()
    assert resident_mib(server) - before_mib < 40


def test_C193_a_drain_lets_four_streams_end_and_refuses_the_rest():
    server = TroupeProcess("--shutdown-timeout", 3600)  # it may not wait for more than its last stream
    alone = [server.text(f"Story {i}:", 80) for i in range(4)]
    kept_open = Http(server.url)
    assert kept_open.call("GET", "/ready")[0] == 200
    streams = [server.begin("sse", f"Story {i}:", 80) for i in range(4)]
    texts = [""] * 4
    iterators = []
    for i, http in enumerate(streams):
        assert http.read_head() == 200
        iterators.append(http.events())
        for _ in range(10):
            texts[i] += next(iterators[i])["choices"][0]["text"]
    server.process.send_signal(signal.SIGTERM)
    server.wait_for_line(server.errors, "draining")
    try:
        with Http(server.url) as late:
            assert late.call("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 503
    except (OSError, EOFError):
        pass  # not accepted any more: as good
    with pytest.raises((OSError, EOFError)):
        kept_open.call("GET", "/ready")
    for i, events in enumerate(iterators):
        last = None
        for last in events:
            if last != "[DONE]" and last["choices"]:
                texts[i] += last["choices"][0]["text"]
        assert last == "[DONE]"
    assert texts == alone
    assert server.wait_exit() == 0
    assert server.error_lines() == []
    kept_open.close()


def test_C194_a_drain_closes_idle_sockets_at_once_busy_ones_after_their_answer_and_the_rest_by_name():
    server = TroupeProcess("--shutdown-timeout", 8)
    idle, busy, endless = (WebSocket(server.url).open() for _ in range(3))
    for socket_, tokens in ((busy, 30), (endless, 7000)):
        socket_.send_json({"type": "response.create", "input": "A story:", "max_output_tokens": tokens,
                           "ignore_eos": True, "temperature": 0})
    busy_events, endless_events = busy.events(), endless.events()
    for events in (busy_events, endless_events):
        for event in events:
            if event["type"] == "response.output_text.delta":
                break
    server.process.send_signal(signal.SIGTERM)
    assert list(idle.events()) == [] and idle.close_code == 1001
    rest = [event["type"] for event in busy_events]
    assert rest[-1] == "response.incomplete" and "error" not in rest  # all the tokens it asked for
    assert busy.close_code == 1001
    rest = [event["type"] for event in endless_events]
    assert rest[-1] == "response.failed" and "error" in rest and endless.close_code == 1001
    assert server.wait_exit() == 0
    for socket_ in (idle, busy, endless):
        socket_.close()
