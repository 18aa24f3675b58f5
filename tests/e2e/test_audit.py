"""The audit of the KV state and health, on the real program: sound whatever happens, and able to see what does.

A server with a planted leak breaks the promise that `TroupeProcess.stop()` checks, so its test ends it itself.
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from troupe_process import LEAKED, RUNNING, USED, WAITING, TroupeProcess, is_idle, words

DEBUG = "--debug-endpoints"
QUARANTINED = "troupe_kv_blocks_quarantined"
VIOLATIONS = "troupe_invariant_violations_total"
PARKS = "troupe_num_parks_total"
PREEMPTIONS = "troupe_num_preemptions_total"


def audit(server, query=""):
    status, report = server.call("/debug/kv" + query)
    assert status == 200, report
    return report


def sound(server):
    report = audit(server)
    assert report["problems"] == [] and report["sound"]
    pool = report["allocator"]
    assert pool["free"] + pool["leased"] + pool["cached"] + pool["quarantined"] == pool["total"]
    counted = {"free": 0, "leased": 0, "cached": 0, "quarantined": 0}
    for entry in pool["blocks"]:
        counted[entry["state"]] += entry["last"] - entry["first"] + 1
        assert bool(entry["leases"] or entry.get("copied_by")) == (entry["state"] == "leased")
    assert counted == {state: pool[state] for state in counted}
    return report


def test_without_debug_endpoints_there_is_no_such_route(server):
    for path, body in (("/debug/kv", None), ("/debug/freeze", {"ms": 1})):
        status, reply = server.call(path, body)
        assert status == 404 and reply["error"]["code"] == "unknown_url"


def test_the_audit_needs_the_key(serve):
    server = serve(DEBUG, "--api-key", "secret", "--metrics-open")
    assert server.call("/debug/kv")[0] == 401
    status, report = server.call("/debug/kv", headers=[("Authorization", "Bearer secret")])
    assert status == 200 and report["sound"]


def test_idle_and_busy_servers_are_sound_and_show_who_holds_what(serve):
    server = serve(DEBUG)
    idle = sound(server)
    assert idle["scheduler"]["requests"] == [] and idle["scheduler"]["step"] is None
    assert idle["allocator"]["free"] == idle["allocator"]["total"]
    with server.begin("sse", words(40), 2000) as http:
        assert http.read_head() == 200
        next(http.events())
        report = sound(server)
        (request,) = report["scheduler"]["requests"]
        assert request["lease"] == f"{request['id']}.1" and request["blocks"] >= 3
        assert [event["event"] for event in request["events"]][-1] in ("step_plan", "reserve", "granted")
        leases = {lease for entry in report["allocator"]["blocks"] for lease in entry["leases"]}
        assert leases == {request["lease"]}
        assert "blocks" not in audit(server, "?blocks=0")["allocator"]
    server.wait_idle()
    assert sound(server)["allocator"]["leased"] == 0


@pytest.mark.parametrize("tier", ["recompute", "park"])
def test_a_server_that_preempts_is_sound_at_every_look(serve, tier):
    server = serve(DEBUG, "--num-kv-blocks", 48, "--max-num-seqs", 8,
                   *(["--kv-offloading-size", "64MiB"] if tier == "park" else []))
    looks, copies, done = 0, 0, threading.Event()

    def client(seed):
        with server.begin("sse", words(12, seed), 110) as http:
            assert http.read_head() == 200
            for i, _ in enumerate(http.events()):
                if seed % 4 == 3 and i == 30:
                    http.kill("rst")
                    return

    def look():
        nonlocal looks, copies
        while not done.is_set():
            report = sound(server)
            looks, copies = looks + 1, max(copies, len(report["mover"]["copies"]))

    with concurrent.futures.ThreadPoolExecutor(13) as pool:
        looking = pool.submit(look)
        clients = [pool.submit(client, seed) for seed in range(12)]
        try:
            for one in clients:
                one.result()
        finally:
            done.set()
        looking.result()
    metrics = server.wait_idle()
    assert looks > 20 and metrics.total(PREEMPTIONS) > 0
    assert (metrics.total(PARKS) > 0) == (copies > 0) == (tier == "park")
    assert sound(server)["mover"]["used"] == 0


def test_a_planted_leak_is_found_named_and_set_aside_and_serving_goes_on():
    server = TroupeProcess(DEBUG, "--plant-leak", 2, "--num-kv-blocks", 64, "--no-enable-prefix-caching")
    try:
        assert server.text("one", 20)
        server.wait_idle()
        victim = server.count_tokens(words(40))
        try:
            assert server.text(words(40), 10)
            metrics = server.wait_for(lambda m: m.total(LEAKED) > 0, "the leak is found")
        except (OSError, EOFError):  # a build that aborts on a violated invariant: that is the finding
            assert server.wait_exit() == -signal.SIGABRT
            assert any(line.startswith("violated invariant: ") and "lease 2.1 (" in line for line in server.errors)
            return
        leaked = metrics.total(LEAKED)
        assert (victim + 9 + 15) // 16 <= leaked <= (victim + 9 + 15) // 16 + 1
        server.wait_for(lambda m: m.total(VIOLATIONS) == 1, "the leak is counted")
        pool = sound(server)["allocator"]
        assert pool["quarantined"] == pool["leaked"] == server.value(QUARANTINED) == leaked
        assert pool["free"] == 64 - leaked
        (line,) = [json.loads(line) for line in server.error_lines()]
        assert line["event"] == "invariant_violated"
        assert line["invariant"].startswith(f"{leaked:.0f} blocks leaked, quarantined; no live request owns lease 2.1 (")
        for event in ("granted 2.1", "step_plan 2.1", "release 2.1", "ended 2.1"):
            assert event in line["invariant"]
        solo = server.text("Once", 60)
        with concurrent.futures.ThreadPoolExecutor(8) as pool_of_clients:
            assert set(pool_of_clients.map(lambda _: server.text("Once", 60), range(16))) == {solo}
        metrics = server.wait_for(is_idle, "idle")
        assert metrics.total(LEAKED) == leaked and metrics.total(VIOLATIONS) == 1
    finally:
        server.process.send_signal(signal.SIGTERM)
        code = server.wait_exit()
        server.kill()
    assert code == 0


def test_C191_a_frozen_device_shows_in_ready_then_in_health_and_both_come_back(serve):
    server = serve(DEBUG, "--stall-ready-s", 1, "--stall-health-s", 3, "--max-num-seqs", 1)
    assert server.call("/ready")[0] == server.call("/health")[0] == 200
    running = server.begin("sse", "A story:", 4000)
    assert running.read_head() == 200
    next(running.events())
    with running, server.begin("sse", "Another:", 5) as waiting:
        server.wait_for(lambda m: m.total(WAITING) == 1, "one waits")
        assert server.call("/debug/freeze", {"ms": 8000})[0] == 200
        frozen, seen = time.monotonic(), {}
        while time.monotonic() - frozen < 7.5:
            for path in ("/ready", "/health"):
                status, reply = server.call(path)
                if status != 200 and path not in seen:
                    seen[path] = time.monotonic() - frozen
                    assert status == 503 and reply["error"]["code"] == "engine_stalled"
                    assert "while 1 requests run and 1 wait" in reply["error"]["message"]
                    assert "No step has retired for" in reply["error"]["message"]
            if "/health" in seen:
                break
            time.sleep(0.05)
        assert 0.9 < seen["/ready"] < seen["/health"] and 2.9 < seen["/health"]
        report = sound(server)  # the scheduler answers while the device does not
        assert report["scheduler"]["step"] is not None
        running.kill("rst")
        states = lambda: {r["state"] for r in audit(server, "?blocks=0")["scheduler"]["requests"]}
        while "retiring" not in (now := states()) and time.monotonic() - frozen < 7.5:
            time.sleep(0.02)
        assert now == {"retiring", "queued"}
        assert waiting.read_head() == 200
        assert sum(event != "[DONE]" for event in waiting.events()) >= 5
        assert time.monotonic() - frozen > 7.5
    server.wait_idle()
    assert server.call("/ready")[0] == server.call("/health")[0] == 200


def test_C188_after_a_killed_load_generator_the_gauges_read_zero_without_new_traffic(serve):
    server = serve("--max-num-seqs", 8)
    load = subprocess.Popen([sys.executable, "-c", f"""
import sys, time
sys.path[:0] = [{str(pathlib.Path(__file__).parents[2] / 'tools')!r}]
from wire_client import Http
all = [Http({server.url!r}) for _ in range(50)]
for one in all:
    one.request("POST", "/v1/completions", {{"prompt": "Go on:", "max_tokens": 2000, "stream": True, "ignore_eos": True}})
time.sleep(600)
"""])
    server.wait_for(lambda m: m.total(RUNNING) == 8 and m.total(WAITING) == 42, "all are in")
    load.send_signal(signal.SIGKILL)
    load.wait()
    server.wait_for(lambda m: m.total(RUNNING) == m.total(WAITING) == m.total(USED) == 0, "all are gone")


def test_C190_token_totals_are_the_sums_over_requests_that_ended_aborted_ones_included(server):
    before = server.metrics()
    for seed in range(7):
        with server.begin("sse", [1000 + seed] * 500, 200) as http:
            assert http.read_head() == 200
            events = http.events()
            for _ in range(3):
                next(events)
            http.kill("rst")
    server.wait_idle()
    after = server.metrics()

    def rose(name):
        return after.total(name) - before.total(name)

    assert rose("troupe_request_prompt_tokens_count") == rose("troupe_request_generation_tokens_count") == 7
    assert rose("troupe_prompt_tokens_total") == rose("troupe_request_prompt_tokens_sum") == 3500
    assert rose("troupe_generation_tokens_total") == rose("troupe_request_generation_tokens_sum") >= 7 * 3


def resident(server):
    pages = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def test_C035_five_hundred_streams_left_after_their_first_token_cost_nothing(serve):
    server = serve(DEBUG, "--max-num-seqs", 32)

    def leave(count):
        for i in range(count):
            with server.begin("sse", f"Number {i}", 200) as http:
                assert http.read_head() == 200
                next(http.events())
        server.wait_idle()
        return resident(server), sound(server)["allocator"]["leased"]

    start, _ = leave(100)
    end, leased = leave(400)
    assert leased == 0 and end - start < 8 << 20
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        texts = [pool.submit(server.text, words(5, i), 40) for i in range(32)]
        server.wait_for(lambda m: m.total(RUNNING) == 32, "all run at once")
        assert all(text.result() for text in texts)


def test_C038_waiters_that_vanish_keep_no_place(serve):
    server = serve("--max-num-seqs", 8, "--max-num-queued-reqs", 64)
    for _ in range(3):
        clients = [server.begin("sse", "Go on:", 1000) for _ in range(300)]
        time.sleep(0.05)
        for client in clients:
            client.kill("rst")
        server.wait_idle()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = [pool.submit(server.text, words(5, i), 60) for i in range(8)]
        server.wait_for(lambda m: m.total(RUNNING) == 8, "all places are free")
        assert all(text.result() for text in texts)


def test_C034_a_refused_turn_leaves_what_is_cached_of_its_conversation(serve):
    server = serve(DEBUG, "--max-model-len", 700)
    history = list(range(2000, 2560))
    first = server.complete(history, 8)
    status, reply = server.call("/v1/completions", {"prompt": history + [1000] * 300, "max_tokens": 8})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded", reply
    assert sound(server)["allocator"]["cached"] >= 560 // 16
    again = server.complete(history + [1000] * 20, 8)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 560
    cold = serve(DEBUG, "--max-model-len", 700, "--no-enable-prefix-caching")
    assert cold.text(history + [1000] * 20, 8) == again["choices"][0]["text"]
    assert cold.text(history, 8) == first["choices"][0]["text"]
