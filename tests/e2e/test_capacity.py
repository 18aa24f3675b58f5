"""A pool that is too small: refusals that name the limit, recompute that nobody can see, no starvation."""

import concurrent.futures
import threading
import time

import pytest

from troupe_process import WAITING, words

PREEMPTIONS = "troupe_num_preemptions_total"


def test_C085_a_prompt_larger_than_the_pool_is_refused_at_once_and_blocks_nobody(serve):
    server = serve("--num-kv-blocks", 64)
    status, reply = server.call("/v1/completions", {"prompt": [1000] * 1500, "max_tokens": 8})
    assert server.value("troupe_iteration_tokens_total_sum") == 0, "it was computed in part before it was refused"
    assert status == 400 and reply["error"]["code"] == "kv_capacity_exceeded", reply
    for i in range(10):
        assert server.text(f"Number {i}", 4)
    assert server.value(WAITING) == 0


def test_C086_prompts_at_the_edge_of_the_pool_are_answered_or_refused_but_never_hang(serve):
    server = serve("--num-kv-blocks", 64)
    tokens = int(server.wait_for(lambda m: m.total("troupe_kv_blocks_total") > 0, "the pool's size is known")
                 .total("troupe_kv_blocks_total")) * 16
    answers = {}
    for size in (tokens - 1, tokens, tokens + 1, 64 * 16):
        status, reply = server.call("/v1/completions", {"prompt": [1000] * size, "max_tokens": 8})
        answers[size - tokens] = status
        if status != 200:
            assert status == 400 and reply["error"]["code"] in ("kv_capacity_exceeded", "context_length_exceeded")
        server.wait_idle()
    assert answers[-1] == 200 and answers[1] == 400


def test_C091_a_tight_pool_under_steady_arrivals_goes_on_completing(serve):
    server = serve("--num-kv-blocks", 200, "--max-num-queued-reqs", 8)
    prefix, arrivals, window = words(300), 240, 120
    statuses, lock = [0] * arrivals, threading.Lock()
    started = time.monotonic()

    def one(i):
        status, reply = server.call("/v1/completions", {"prompt": f"{prefix} {i}", "max_tokens": 24,
                                                        "temperature": 0, "ignore_eos": True})
        with lock:
            statuses[i] = status
        assert status in (200, 503), reply

    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        futures = []
        for i in range(arrivals):
            time.sleep(max(0.0, started + i / 30 - time.monotonic()))
            futures.append(pool.submit(one, i))
        for future in futures:
            future.result()
    for begin in range(0, arrivals, window):
        assert 200 in statuses[begin:begin + window], f"none of the arrivals {begin} to {begin + window} completed"
    assert server.value(PREEMPTIONS) <= 2 * statuses.count(200)


def test_C092_a_preempted_request_sends_the_same_text_usage_and_logprobs(serve):
    server = serve("--num-kv-blocks", 36, "--scheduling-policy", "priority")
    victim = dict(prompt="A long story about a lighthouse:", max_tokens=400, logprobs=1, priority=10)
    solo = server.complete(**victim)
    rivals, events = [], 0

    def rival(seed):
        assert server.text(words(20, seed), 220, priority=0)

    text, logprobs, usage = "", [], None
    with server.begin("sse", victim["prompt"], 400, logprobs=1, priority=10,
                      stream_options={"include_usage": True}) as http:
        assert http.read_head() == 200
        for event in http.events():
            if event == "[DONE]":
                break
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                text += choice["text"]
                if choice["logprobs"]:
                    logprobs += choice["logprobs"]["token_logprobs"]
            events += 1
            if events in (1, 100):
                rivals.append(threading.Thread(target=rival, args=(events,)))
                rivals[-1].start()
    for thread in rivals:
        thread.join()
    assert server.value(PREEMPTIONS) >= 1, "the pool was not small enough for this test"
    assert text == solo["choices"][0]["text"]
    assert logprobs == solo["choices"][0]["logprobs"]["token_logprobs"]
    assert usage["completion_tokens"] == solo["usage"]["completion_tokens"] == 400
    assert usage["prompt_tokens"] == solo["usage"]["prompt_tokens"]


@pytest.mark.parametrize("size", [8192, 9000])
def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(server, size):
    status, reply = server.call("/v1/completions", {"prompt": [1000] * size, "max_tokens": 1, "stream": True})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded", reply
    assert "maximum context length is 8192 tokens" in reply["error"]["message"]
    assert str(size) in reply["error"]["message"]


def test_a_full_queue_refuses_with_retry_after_and_the_rest_is_served(serve):
    server = serve("--max-num-seqs", 1, "--max-num-queued-reqs", 2)
    opened = [server.begin("sse", "One", 60)]
    server.wait_for(lambda m: m.total("troupe_num_requests_running") == 1, "one runs")
    for i in range(2):
        opened.append(server.begin("sse", f"Queued {i}", 4))
        server.wait_for(lambda m: m.total(WAITING) == i + 1, "one more waits")
    with server.begin("sse", "Too many", 4) as refused:
        assert refused.read_head() == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert b"server_is_overloaded" in refused.read_body()
    for http in opened:
        assert http.read_head() == 200
        assert list(http.events())[-1] == "[DONE]"
        http.close()
