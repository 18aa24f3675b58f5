"""Failures seen in public at servers of this kind, by their case ids: clients that leave."""

import concurrent.futures
import random
import subprocess
import threading
import time

import pytest

from troupe_process import RUNNING, USED, WAITING, answered, words
from wire_client import Http, WebSocket

STEP_TOKENS = "troupe_iteration_tokens_total_sum"
STEPS = "troupe_step_seconds_count"


def begun_stream(server, prompt="Once upon a time"):
    """A stream of 4000 tokens that has had its first event."""
    http = server.begin("sse", prompt, 4000)
    assert http.read_head() == 200
    next(http.events())
    return http


def test_C001_a_queued_client_that_dies_is_never_started(serve):
    server = serve("--max-num-seqs", 1)
    a_tokens, c_tokens = 120, 5
    b_prompt = words(300)
    a = server.begin("sse", "Once upon a time", a_tokens)
    server.wait_for(lambda m: m.total(RUNNING) == 1, "A runs")
    b = subprocess.Popen(["curl", "-s", server.url + "/v1/chat/completions", "-H", "Content-Type: application/json",
                          "-d", '{"messages":[{"role":"user","content":"%s"}],"max_tokens":256}' % b_prompt])
    server.wait_for(lambda m: m.total(WAITING) == 1, "B waits")
    b.kill()
    b.wait()
    server.wait_for(lambda m: m.total(WAITING) == 0, "B left the queue")
    assert server.value(RUNNING) == 1, "A ended too early for this test"
    assert len(server.text("Yes, and", c_tokens)) > 0
    a.read_head()
    assert list(a.events())[-1] == "[DONE]"
    metrics = server.wait_idle()
    fed = (server.count_tokens("Once upon a time") + a_tokens + server.count_tokens("Yes, and") + c_tokens)
    assert metrics.total(STEP_TOKENS) <= fed, "B was prefilled for nobody"


def test_C002_cancels_reach_each_of_several_queued_requests(serve):
    server = serve("--max-num-seqs", 1)
    running = server.begin("sse", "Once upon a time", 150)
    server.wait_for(lambda m: m.total(RUNNING) == 1, "one runs")
    queued = []
    for i in range(5):
        queued.append(server.begin("http", f"Request {i + 1}:", 5))
        server.wait_for(lambda m: m.total(WAITING) == i + 1, f"R{i + 1} waits")
    for i in (1, 2, 3):
        queued[i].kill("fin")
    metrics = server.wait_for(lambda m: server.disconnects(m) == 3 and m.total(WAITING) == 2, "three left")
    assert metrics.total(RUNNING) == 1
    running.read_head()
    assert list(running.events())[-1] == "[DONE]"
    for i in (0, 4):
        assert queued[i].read_head() == 200
        queued[i].read_body()
    metrics = server.wait_idle()
    assert server.disconnects(metrics) == server.disconnects(metrics, phase="queued") == 3


def test_C004_a_reset_right_behind_the_request_is_seen(server):
    before = server.metrics()
    for i in range(300):
        http = server.begin("sse" if i % 2 else "http", f"Say {i}", 400)
        time.sleep(random.Random(i).random() * 0.001)
        http.kill("rst")
    after = server.wait_idle()
    assert answered(after) == answered(before), "a request went on to its end without its client"
    server.text("Hello", 4)


def test_C005_leaving_during_a_long_prompt_stops_its_work(serve):
    server = serve("--num-kv-blocks", 600)
    http = server.begin("http", [1000 + i % 500 for i in range(7900)], 50)
    before = server.wait_for(lambda m: m.total(RUNNING) == 1 and m.total(USED) > 0, "its prompt is computed")
    http.kill("fin")
    after = server.wait_gone(before)
    assert after.total(STEP_TOKENS) < 7900, "the whole prompt was computed"
    time.sleep(0.3)
    assert server.value(STEPS) == after.total(STEPS)
    assert after.total("troupe_generation_tokens_total") == 0


def test_C007_a_cancel_beside_the_last_prefill_chunk_ends_the_stream_once(serve):
    server = serve("--max-num-batched-tokens", 64)
    prompt = [1000 + i for i in range(192)]
    rounds, random_delay = 40, random.Random(7)
    with Http(server.url) as canceller:
        for _ in range(rounds):
            with server.begin("sse", prompt, 400) as http:
                assert http.read_head() == 200
                time.sleep(random_delay.random() * 0.12)
                assert canceller.call("POST", f"/v1/requests/{http.headers['x-troupe-id']}/cancel", {})[0] == 200
                events = list(http.events())
                assert events.count("[DONE]") == 1 and events[-1] == "[DONE]"
                assert len(events) < 400, "the stream went on after its cancel"
    assert server.wait_idle().total("troupe_request_success_total") == rounds


def test_C008_cancels_with_a_middle_chunk_in_flight_lose_no_block(serve):
    server = serve("--max-num-batched-tokens", 64, "--num-kv-blocks", 50)
    prompt = [1000 + i for i in range(256)]
    for _ in range(40):
        before = server.value(STEP_TOKENS)
        http = server.begin("sse", prompt, 400)
        server.wait_for(lambda m: m.total(STEP_TOKENS) - before >= 64, "the first chunk is done")
        http.kill("rst")
    metrics = server.wait_idle()
    assert metrics.total("troupe_kv_blocks_total") == 50
    # Every block can still be had.
    assert len(server.text([1000 + i % 100 for i in range(50 * 16 - 8)], 4)) > 0


def test_C010_an_abandoned_stream_stops_decoding_and_its_place_is_free(server):
    before = server.metrics()
    http = begun_stream(server)
    events = http.events()
    for _ in range(5):
        next(events)
    http.kill("fin")
    after = server.wait_gone(before)
    time.sleep(0.3)
    assert server.value(STEPS) == after.total(STEPS)
    begun_stream(server).kill("rst")
    server.wait_gone(before, 2)


def test_C011_the_one_slot_is_free_at_once_after_each_closed_stream(serve):
    server = serve("--max-num-seqs", 1)
    before = server.metrics()
    for _ in range(21):
        http = begun_stream(server)  # in the one slot: it begins when the one before has left
        events = http.events()
        for _ in range(3):
            next(events)
        http.kill("fin")
    server.wait_gone(before, 21)


def test_C013_many_streams_reset_at_random_tokens_leave_a_working_server(serve):
    server = serve("--max-num-seqs", 4, "--max-num-queued-reqs", 64)
    before = server.metrics()

    def reset_at_random(i):
        http = server.begin("sse", f"Stream {i}", 400)
        assert http.read_head() == 200
        events = http.events()
        for _ in range(random.Random(i).randrange(1, 9)):
            next(events)
        http.kill("rst")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(reset_at_random, range(200)))
    server.wait_gone(before, 200)
    server.text("Hello", 16)


def test_C014_a_stopped_turn_leaves_nothing_in_the_next_one(server):
    def turn(socket, conversation, stop_after=None):
        socket.send_json({"type": "response.create", "input": conversation, "temperature": 0,
                          "max_output_tokens": 40, "ignore_eos": True})
        text, deltas = "", 0
        for event in socket.events():
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
                deltas += 1
                if deltas == stop_after:
                    socket.send_json({"type": "response.cancel"})
            if event["type"] in ("response.completed", "response.incomplete"):
                return text, event["response"]
            assert event["type"] != "error", event

    question = {"role": "user", "content": "Tell me a story about a fox."}
    with WebSocket(server.url).open() as socket:
        partial, response = turn(socket, [question], stop_after=4)
        assert response["incomplete_details"]["reason"] == "cancelled"
        history = [question, {"role": "assistant", "content": partial},
                   {"role": "user", "content": "Now name three colours."}]
        warm_text, warm = turn(socket, history)
    with WebSocket(server.url).open() as socket:
        cold_text, cold = turn(socket, history)
    assert warm["usage"]["input_tokens"] == cold["usage"]["input_tokens"]
    assert warm_text == cold_text


def test_C016_leaving_a_plain_reply_of_three_prompts_stops_all_three(serve):
    server = serve("--max-num-seqs", 1)
    http = Http(server.url)
    http.request("POST", "/v1/completions", {"prompt": ["One:", "Two:", "Three:"], "max_tokens": 30,
                                             "ignore_eos": True, "temperature": 0})
    server.wait_for(lambda m: m.total("troupe_request_success_total") == 1, "the first is done")
    server.wait_for(lambda m: m.total(RUNNING) == 1, "the second runs")
    http.kill("fin")
    server.wait_idle()
    assert server.text("Hello", 4)


ROUTES = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell a story."}]}),
    "completions": ("/v1/completions", {"prompt": "Tell a story."}),
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("route", [*ROUTES, "websocket"])
def test_C017_every_generating_route_stops_when_its_client_leaves(server, route, stream):
    if route == "websocket":
        connection = server.begin("ws", "Tell a story.", 4000, stream=stream)
    else:
        path, body = ROUTES[route]
        connection = Http(server.url)
        connection.request("POST", path, {**body, "stream": stream, "max_tokens": 4000, "ignore_eos": True})
    server.wait_for(lambda m: m.total(RUNNING) == 1 and m.total(USED) > 0, "it runs")
    time.sleep(0.1)
    gone = server.disconnects()
    connection.kill("fin")
    assert server.disconnects(server.wait_idle()) == gone + 1


def test_C088_after_a_burst_cancelled_in_all_states_one_request_starts_at_once(serve):
    server = serve("--max-num-seqs", 8, "--max-num-queued-reqs", 128, "--num-kv-blocks", 300)
    burst = [server.begin(("sse", "http", "ws")[i % 3], words(5 + 7 * (i % 40), i), 200) for i in range(100)]
    time.sleep(0.7)
    threads = [threading.Thread(target=c.kill, args=(("fin", "rst")[i % 2],)) for i, c in enumerate(burst)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.wait_idle()
    begun_stream(server).kill("fin")
