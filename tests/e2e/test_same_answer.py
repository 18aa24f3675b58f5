"""The same answer under any load: 64 requests at once on a pool that is far too small equal their solo answers,
whether preempted requests are computed again or parked on the host tier, whatever the prefix cache holds, and however
the cache is stored.

TROUPE_E2E_SCALE above 1 (`tools/test --proof`) adds a round with 16 places.
"""

import os
import threading

import pytest

from troupe_process import TroupeProcess, words

BLOCKS, REQUESTS = 280, 64
PREEMPTIONS = "troupe_num_preemptions_total"
PARKS = "troupe_num_parks_total"

# How often the pool must have run over. With 16 places fewer requests grow at once, so fewer are put back.
PREEMPTED = {16: 8, 32: 20}
HITS = 20  # requests that found the beginning of their prompt in the cache
HEAVY = int(os.environ.get("TROUPE_E2E_SCALE", "1")) > 1
SOME = range(0, REQUESTS, 5)  # of them, for each type of the cache; on a pool as small for them
SOME_BLOCKS = 80
ROUNDS = [(32, "recompute"), (32, "park")] + ([(16, "recompute")] if HEAVY else [])


def request(i):
    """Prompts of 5 to 600 words, most of them short, three of four behind the same 36 words; long answers, so that
    what was admitted outgrows the pool. Half greedy, half sampled with seeds."""
    prompt_words = int(5 + 595 * (i / (REQUESTS - 1)) ** 3)
    tokens = 192 if prompt_words <= 40 else 264 if prompt_words <= 300 else 312
    shared = words(36, 7) + " " if i % 4 else ""
    body = {"prompt": shared + words(prompt_words, i), "max_tokens": tokens, "ignore_eos": True, "logprobs": 0,
            "temperature": 0}
    if i % 2:
        body |= {"temperature": 0.8, "seed": 1000 + i}
    return body


def answer(server, i):
    status, reply = server.call("/v1/completions", request(i))
    assert status == 200, reply
    (choice,) = reply["choices"]
    return {"text": choice["text"], "tokens": choice["logprobs"]["tokens"],
            "logprobs": choice["logprobs"]["token_logprobs"], "usage": reply["usage"]["completion_tokens"],
            "cached": reply["usage"]["prompt_tokens_details"]["cached_tokens"]}


def start_server(slots, *more, blocks=BLOCKS):
    return TroupeProcess("--max-num-seqs", slots, "--num-kv-blocks", blocks, "--max-num-queued-reqs", 128,
                         "--queue-timeout", 0, "--first-token-timeout", 0, *more)


def in_threads(function, arguments):
    """{argument: result} of one thread each, all started before any is waited for."""
    results = {}
    threads = [threading.Thread(target=lambda a=a: results.__setitem__(a, function(a))) for a in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(threads), "a request failed, see above"
    return results


def answers_alone(requests, *more):
    """Each sent alone to an idle server: two servers of one thread each share the work. The servers under load
    have all the threads, which must make no difference either."""
    def half(remainder):
        server = start_server(1, "--threads", 1, "--no-enable-prefix-caching", *more)
        answers = {i: answer(server, i) for i in list(requests)[remainder::2]}
        assert server.value(PREEMPTIONS) == 0
        server.stop()
        return answers

    halves = in_threads(half, [0, 1])
    return halves[0] | halves[1]


@pytest.fixture(scope="module")
def solo_answers():
    return answers_alone(range(REQUESTS))


def different(answers, alone):
    """The requests whose answer is not that of their solo run, whatever was cached."""
    rest = lambda a: {k: v for k, v in a.items() if k != "cached"}
    return [i for i in answers if rest(answers[i]) != rest(alone[i])]


@pytest.mark.parametrize("slots, tier", ROUNDS)
def test_64_requests_at_once_equal_their_solo_answers(solo_answers, slots, tier):
    server = start_server(slots, *(["--kv-offloading-size", "256MiB"] if tier == "park" else []))
    before = server.metrics()
    # Long and short prompts arrive mixed.
    answers = in_threads(lambda i: answer(server, i), [k * 61 % REQUESTS for k in range(REQUESTS)])
    after = server.wait_idle()

    hits = sum(1 for a in answers.values() if a["cached"] > 0)
    assert different(answers, solo_answers) == []
    rose = lambda name, **labels: after.total(name, **labels) - before.total(name, **labels)
    preemptions, parks = rose(PREEMPTIONS), rose(PARKS)
    returned = rose("troupe_kv_moved_blocks_total", direction="in", outcome="ok")
    steps, sequences = rose("troupe_step_sequences_count"), rose("troupe_step_sequences_sum")
    print(f"max-num-seqs {slots}, {tier}: {preemptions:.0f} preemptions, {parks:.0f} parks, {hits} prefix hits, "
          f"mean batch {sequences / steps:.1f} in {steps:.0f} steps")
    assert preemptions >= PREEMPTED[slots]
    assert hits >= HITS
    assert sequences / steps >= 8
    if tier == "park":
        assert parks >= 20 and returned >= 20
        assert rose("troupe_kv_moved_blocks_total", outcome="late") == 0
        assert after.total("troupe_kv_blocks_offloaded") == 0
    else:
        assert parks == 0
    # Every block is free or cached, and all of them serve one request that needs the whole pool.
    whole_pool = [1000 + i % 1000 for i in range(BLOCKS * 16 - 16)]
    assert server.complete(whole_pool, 16)["usage"]["total_tokens"] == BLOCKS * 16
    server.stop()


@pytest.mark.parametrize("kv", ["int8", "int4"])
def test_answers_from_a_cache_in_codes_equal_their_solo_answers(kv):
    alone = answers_alone(SOME, "--kv-cache-dtype", kv)
    server = start_server(16, "--kv-cache-dtype", kv, "--kv-offloading-size", "256MiB", blocks=SOME_BLOCKS)
    answers = in_threads(lambda i: answer(server, i), list(SOME)[::-1])
    after = server.wait_idle()
    hits, parks = sum(1 for a in answers.values() if a["cached"] > 0), after.total(PARKS)
    print(f"{kv}: {parks:.0f} parks, {hits} prefix hits")
    assert different(answers, alone) == []
    assert parks >= 3
    # What the crowd leaves in the cache depends on its timing; the second of two equal requests finds the first's prompt.
    for i in list(SOME)[1:5]:
        first, second = answer(server, i), answer(server, i)
        assert different({i: first}, alone) == different({i: second}, alone) == []
        assert second["cached"] > 0, i
    assert after.total("troupe_kv_moved_blocks_total", direction="in", outcome="ok") >= 3
    server.stop()
