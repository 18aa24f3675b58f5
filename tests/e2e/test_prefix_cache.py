"""The prefix cache as a client sees it: how many tokens came from it, and that no answer ever shows it.

`cold` never caches: what it answers is what everybody must answer.
"""

import json
import subprocess

import pytest

from troupe_process import TroupeProcess, binary, default_model, words

BLOCK = 16
QUERIES = "troupe_prefix_cache_queries_total"
HITS = "troupe_prefix_cache_hits_total"
CACHED = "troupe_kv_blocks_cached"


@pytest.fixture(scope="module")
def cold():
    started = TroupeProcess("--no-enable-prefix-caching")
    yield started
    started.stop()


def ids(count, first=1000):
    """A prompt of that many tokens, another for each `first` that is at least `count` away."""
    return list(range(first, first + count))


def hits_of(tokens):
    """What a prompt that was computed before finds: whole blocks, and the last token is never among them."""
    return (tokens - 1) // BLOCK * BLOCK


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def answer(reply):
    (choice,) = reply["choices"]
    return choice["text"], choice["logprobs"]


def ask(server, prompt, max_tokens=16, **fields):
    return server.complete(prompt, max_tokens, logprobs=2, **fields)


def test_C146_a_restart_with_another_block_size_starts_cold_and_answers_the_same(serve, cold):
    """The cache lives in the process, which serves one model with one KV layout: nothing of it outlives either."""
    prompt = ids(100, 9000)
    expected = ask(cold, prompt)
    for block_size in (16, 32):
        server = serve("--block-size", block_size)
        first = ask(server, prompt)
        assert cached(first) == 0 and answer(first) == answer(expected)
        assert cached(ask(server, prompt)) == (len(prompt) - 1) // block_size * block_size
        server.stop()


@pytest.mark.parametrize("size", [1, 15, 16, 17, 32, 33, 300])
def test_C148_a_full_hit_answers_as_the_cold_run_did_bit_by_bit(server, cold, size):
    prompt = ids(size, 2000 + 50 * size)
    expected = ask(cold, prompt, 64)
    assert cached(expected) == 0
    first, second = ask(server, prompt, 64), ask(server, prompt, 64)
    assert cached(first) == 0
    assert cached(second) == hits_of(size)
    for reply in (first, second):
        assert reply["usage"]["prompt_tokens"] == size
        assert reply["usage"]["completion_tokens"] == 64
        assert answer(reply) == answer(expected)


@pytest.mark.parametrize("equal, found", [(20, 16), (17, 16), (31, 16), (33, 32)])
def test_C149_only_whole_equal_blocks_are_reused(server, cold, equal, found):
    first = 25000 + 200 * equal
    ask(server, ids(64, first))
    other = ids(equal, first) + ids(64 - equal, first + 100)
    reply = ask(server, other)
    assert cached(reply) == found
    assert answer(reply) == answer(ask(cold, other))


def test_C145_no_salt_an_empty_one_and_any_other_share_nothing(server):
    model = server.call("/v1/models")[1]["data"][0]["id"]
    prompt = ids(50, 40000)
    salts = [{}, {"cache_salt": ""}, {"cache_salt": "a"}, {"cache_salt": model}]
    firsts = [ask(server, prompt, **salt) for salt in salts]
    assert [cached(reply) for reply in firsts] == [0] * len(salts)
    for salt, first in zip(salts, firsts):
        again = ask(server, prompt, **salt)
        assert cached(again) == 48
        assert answer(again) == answer(firsts[0]) == answer(first)


def test_C140_a_continuation_with_another_token_is_not_taken_for_the_one_that_was_sampled(server, cold):
    prompt = ids(15, 41000)
    status, sampled = server.call("/tokenize", {"prompt": server.text(prompt, 1)})
    assert status == 200
    x = sampled["tokens"][0]
    y = x + 1
    ask(server, prompt + [y, 42001])
    reply = ask(server, prompt + [x, 42001])
    assert cached(reply) == 0
    assert answer(reply) == answer(ask(cold, prompt + [x, 42001]))
    assert cached(ask(server, prompt + [y, 42001])) == 16


def test_C142_an_evicted_block_is_never_found_by_what_it_held_before(serve, cold):
    server = serve("--num-kv-blocks", 16)  # three prompts of five blocks, and one more
    a, b, c, d = (ids(81, 10000 + 1000 * i) for i in range(4))
    for prompt in (a, b, c, d):
        assert cached(ask(server, prompt, 4)) == 0
    again = ask(server, a, 4)
    assert cached(again) == 0
    assert answer(again) == answer(ask(cold, a, 4))
    branch = d[:70] + ids(10, 30000)
    reply = ask(server, branch, 4)
    assert cached(reply) in (0, 16, 32, 48, 64)
    assert answer(reply) == answer(ask(cold, branch, 4))
    assert server.value("troupe_invariant_violations_total") == 0


def test_C143_the_code_word_is_answered_in_each_pass_although_everything_is_evicted_between(serve, cold):
    server = serve("--num-kv-blocks", 32)
    prompt = (words(200, 7) + ".\n\nThe secret code word is MANGO.\n\nQuestion: What is the secret code word?\n"
              "Answer: The secret code word is")
    expected = ask(cold, prompt, 8)
    assert "MANGO" in expected["choices"][0]["text"]
    full = hits_of(expected["usage"]["prompt_tokens"])
    for attempt in range(5):
        for found in (0, full):
            reply = ask(server, prompt, 8)
            assert cached(reply) == found, f"pass {attempt}"
            assert answer(reply) == answer(expected), f"pass {attempt}"
        ask(server, ids(31 * BLOCK, 1000 + 600 * attempt), 4)


def test_a_second_turn_finds_the_first(server):
    system = {"role": "system", "content": words(60, 3)}
    question = {"role": "user", "content": "Name an animal."}

    def chat(messages):
        status, reply = server.call("/v1/chat/completions", {"messages": messages, "max_tokens": 40, "temperature": 0})
        assert status == 200, reply
        return reply

    first = chat([system, question])
    said = first["choices"][0]["message"]
    second = chat([system, question, {"role": said["role"], "content": said["content"]},
                   {"role": "user", "content": "Another one?"}])
    assert cached(first) == 0
    # The answer is text again in between, so its last tokens may part; the prompt before it does not.
    assert cached(second) >= hits_of(first["usage"]["prompt_tokens"])


def test_the_stream_tells_the_same_number(server):
    prompt = ids(70, 44000)
    ask(server, prompt)
    with server.begin("sse", prompt, 4, stream_options={"include_usage": True}) as http:
        assert http.read_head() == 200
        usages = [e["usage"] for e in http.events() if e != "[DONE]" and e.get("usage")]
    assert usages[-1]["prompt_tokens_details"]["cached_tokens"] == 64


def test_without_prefix_caching_nothing_is_found(cold):
    prompt = ids(100, 20000)
    assert [cached(ask(cold, prompt)) for _ in range(2)] == [0, 0]
    metrics = cold.wait_idle()
    assert metrics.total(HITS) == metrics.total(CACHED) == 0


def test_every_metric_of_the_cache_moves(serve):
    server = serve()
    before = server.metrics()
    assert before.total(QUERIES) == before.total(HITS) == before.total(CACHED) == 0
    ask(server, ids(100), 1)
    ask(server, ids(100), 1)
    after = server.wait_idle()
    assert after.total(QUERIES) == 200
    assert after.total(HITS) == 96
    assert after.total(CACHED) == 6


LEAVERS = [((), {}, False), ((), {"on_disconnect": "stop"}, False), ((), {"on_disconnect": "keep_prefix"}, True),
           (("--on-disconnect", "keep_prefix"), {}, True),
           (("--on-disconnect", "keep_prefix"), {"on_disconnect": "stop"}, False)]


@pytest.mark.parametrize("options, fields, kept", LEAVERS)
def test_what_a_client_that_leaves_computed_stays_only_where_it_was_told_to(serve, options, fields, kept):
    server = serve(*options)
    prompt = ids(100)
    stream = server.begin("sse", prompt, 4000, **fields)
    assert stream.read_head() == 200
    events = stream.events()
    for _ in range(3):
        next(events)
    stream.kill("rst")
    server.wait_idle()
    assert cached(ask(server, prompt)) == (96 if kept else 0)


def test_a_client_that_leaves_takes_nothing_from_those_who_use_it(server, cold):
    prompt = ids(100, 46000)
    leaver = server.begin("sse", prompt, 4000, on_disconnect="stop")
    assert leaver.read_head() == 200
    next(leaver.events())
    with server.begin("sse", prompt, 60) as follower:
        assert follower.read_head() == 200
        events = follower.events()
        text = next(events)["choices"][0]["text"]
        leaver.kill("rst")
        text += "".join(e["choices"][0]["text"] for e in events if e != "[DONE]" and e["choices"])
    assert text == cold.text(prompt, 60)
    assert cached(ask(server, prompt)) == 96


def prewarm_file(tmp_path, *lines):
    path = tmp_path / "prewarm.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_prewarmed_prompts_are_found_by_the_first_request(serve, tmp_path):
    system = {"role": "system", "content": words(80, 5)}
    path = prewarm_file(tmp_path, "# the prompts of our service\n\n", {"prompt": words(100, 1)},
                        {"messages": [system]}, {"prompt": words(100, 2), "cache_salt": "tenant"})
    server = serve("--prewarm", path)
    warmed = server.metrics()
    assert warmed.total(CACHED) > 0
    tokens = server.count_tokens(words(100, 1))
    longer = words(100, 1) + " and so on"
    assert cached(ask(server, longer)) >= (tokens - 1) // BLOCK * BLOCK
    assert cached(ask(server, words(100, 2))) == 0
    assert cached(ask(server, words(100, 2), cache_salt="tenant")) == hits_of(server.count_tokens(words(100, 2)))
    status, reply = server.call("/v1/chat/completions", {"max_tokens": 4, "messages": [
        system, {"role": "user", "content": "Hello"}]})
    assert status == 200 and cached(reply) >= 64


def test_every_problem_of_a_prewarm_file_is_told_before_anything_is_served(tmp_path):
    path = prewarm_file(tmp_path, {"prompt": "fine"}, "not json\n", {"prompts": []}, {"messages": "hello"})
    ended = subprocess.run([binary, "serve", default_model, "--port", "0", "--prewarm", str(path)],
                           capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    for line in ("line 2", "line 3", "line 4"):
        assert line in ended.stderr
    assert '"ready"' not in ended.stdout


def test_a_prewarm_file_larger_than_the_pool_is_warned_of_and_served(serve, tmp_path):
    path = prewarm_file(tmp_path, *({"prompt": words(150, seed)} for seed in range(6)))
    server = serve("--prewarm", path, "--num-kv-blocks", 32)
    assert "prewarm" in server.wait_for_line(server.errors, "KV pool")
    assert cached(ask(server, words(150, 5))) > 0
