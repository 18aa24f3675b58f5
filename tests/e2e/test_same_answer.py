"""The same answer under any load: 64 requests at once on a pool that is far too small equal their solo answers."""

import threading

import pytest

from troupe_process import TroupeProcess, words

BLOCKS, REQUESTS = 300, 64
PREEMPTIONS = "troupe_num_preemptions_total"


def request(i):
    """Prompts of 5 to 600 words, half greedy and half sampled, 64 to 112 tokens each."""
    body = {"prompt": words(5 + 595 * i // (REQUESTS - 1), i), "max_tokens": 64 + i % 4 * 16,
            "ignore_eos": True, "logprobs": 0, "temperature": 0}
    if i % 2:
        body |= {"temperature": 0.8, "seed": 1000 + i}
    return body


def answer(server, i):
    status, reply = server.call("/v1/completions", request(i), timeout_s=280)
    assert status == 200, reply
    (choice,) = reply["choices"]
    return {"text": choice["text"], "tokens": choice["logprobs"]["tokens"],
            "logprobs": choice["logprobs"]["token_logprobs"], "usage": reply["usage"]["completion_tokens"]}


def start_server(slots):
    return TroupeProcess("--max-num-seqs", slots, "--num-kv-blocks", BLOCKS, "--max-num-queued-reqs", 128,
                         "--queue-timeout", 0, "--first-token-timeout", 0)


@pytest.fixture(scope="module")
def solo_answers():
    server = start_server(16)
    answers = [answer(server, i) for i in range(REQUESTS)]
    assert server.value(PREEMPTIONS) == 0
    server.stop()
    return answers


@pytest.mark.parametrize("slots", [16, 32])
def test_64_requests_at_once_equal_their_solo_answers(solo_answers, slots):
    server = start_server(slots)
    answers = [None] * REQUESTS

    def ask(i):
        answers[i] = answer(server, i)

    # Long and short prompts arrive mixed.
    threads = [threading.Thread(target=ask, args=(i * 37 % REQUESTS,)) for i in range(REQUESTS)]
    before = server.metrics()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = server.wait_idle()

    different = [i for i in range(REQUESTS) if answers[i] != solo_answers[i]]
    assert different == [], f"{len(different)} of {REQUESTS} answers differ from their solo run"
    preemptions = after.total(PREEMPTIONS) - before.total(PREEMPTIONS)
    steps = after.total("troupe_step_sequences_count") - before.total("troupe_step_sequences_count")
    sequences = after.total("troupe_step_sequences_sum") - before.total("troupe_step_sequences_sum")
    print(f"max-num-seqs {slots}: {preemptions:.0f} recomputes, mean batch {sequences / steps:.1f} in {steps:.0f} steps")
    assert preemptions >= 20
    assert sequences / steps >= 8

    whole_pool = [1000 + i % 1000 for i in range(BLOCKS * 16 - 16)]
    assert server.complete(whole_pool, 16)["usage"]["total_tokens"] == BLOCKS * 16
    server.stop()
