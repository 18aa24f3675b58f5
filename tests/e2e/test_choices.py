"""Several answers to one prompt: it is computed once, its blocks are held once, and each choice is what a request of
its own with that seed answers.
"""

import json

import pytest

from troupe_process import USED, words

BLOCK = 16
COMPUTED = "troupe_iteration_tokens_total_sum"


def ids(count, first=1000):
    return list(range(first, first + count))


def choices_of(reply):
    return [choice["text"] for choice in sorted(reply["choices"], key=lambda choice: choice["index"])]


@pytest.mark.parametrize("caching", ("--enable-prefix-caching", "--no-enable-prefix-caching"))
def test_eight_choices_of_a_long_prompt_cost_one_prefill_and_hold_the_prompt_once(serve, caching):
    server = serve(caching, "--max-num-seqs", 16)
    prompt, tokens, answers = ids(2000), 24, 8
    sampled = {"temperature": 0.8, "seed": 4711}
    before = server.value(COMPUTED)
    together = server.begin("http", prompt, tokens, n=answers, **sampled)
    # All run side by side once the prompt is computed: its full blocks once, and two more at most for each tail, whose
    # answer of 24 tokens begins somewhere in a block and is asked for 16 tokens ahead.
    most = [0]

    def over(metrics):
        most[0] = max(most[0], metrics.total(USED))
        return metrics.total(COMPUTED) - before >= len(prompt) + answers * (tokens - 1)

    server.wait_for(over, "all choices are computed", 120)
    status, reply = together.read_head(), json.loads(together.read_body())
    assert status == 200, reply
    assert len(prompt) // BLOCK < most[0] <= len(prompt) // BLOCK + 3 * answers
    assert server.value(COMPUTED) - before == len(prompt) + answers * (tokens - 1)
    assert reply["usage"]["prompt_tokens"] == len(prompt)
    assert reply["usage"]["completion_tokens"] == answers * tokens
    texts = choices_of(reply)
    assert len(set(texts)) > 1
    for i, text in enumerate(texts):
        assert text == server.text(prompt, tokens, temperature=0.8, seed=4711 + i), f"choice {i}"


@pytest.mark.parametrize("deltas", (0, 1, 5, 40))
def test_a_client_that_leaves_eight_choices_gives_every_block_back(serve, deltas):
    server = serve()
    stream = server.begin("sse", words(300), 200, n=8, temperature=0.9, seed=5)
    if deltas > 0:
        assert stream.read_head() == 200
        events = stream.events()
        for _ in range(deltas):
            next(events)
    stream.close()
    server.wait_idle(60)
