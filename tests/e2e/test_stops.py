"""How answers stop and what bends them: stop strings streamed and plain, boundaries, repetition, low confidence,
penalties. Stops are cut out of the model's own answers, so that the tests hold for any model and instruction set."""

import math

import pytest

from wire_client import Http
from troupe_process import TroupeProcess, words

FRUITS = "A list of fruits:\n- apple\n- banana\n"
EMOJI = "Shopping list \U0001f34e apple \U0001f34c banana \U0001f347 grapes \U0001f352"
COUNT = "one two three four five six seven eight nine ten\n" * 2 + "one two three four"
PROSE = "The three largest rivers are"
TOKENS = 40
ENDED = "troupe_request_success_total"


def body_of(prompt, **fields):
    return {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, **fields}


def plain(server, prompt, **fields):
    reply = server.complete(prompt, **{"max_tokens": TOKENS, **fields})
    (choice,) = reply["choices"]
    return choice["text"], choice["finish_reason"], reply["usage"]["completion_tokens"], choice["stop_reason"]


def streamed(server, prompt, **fields):
    body = body_of(prompt, **fields) | {"stream": True, "stream_options": {"include_usage": True}}
    with Http(server.url) as http:
        http.request("POST", "/v1/completions", body)
        assert http.read_head() == 200
        events = list(http.events())
    assert events[-1] == "[DONE]"
    choices = [e["choices"][0] for e in events[:-1] if e["choices"]]
    (end,) = [c for c in choices if c["finish_reason"]]
    return ("".join(c["text"] for c in choices), end["finish_reason"], events[-2]["usage"]["completion_tokens"],
            end["stop_reason"])


def cut(text, stops):
    """The text before the stop that begins first, and that stop, the longer of two at one place; or all of it."""
    places = sorted((text.index(s), -len(s), s) for s in stops if s in text)
    return (text[:places[0][0]], places[0][2]) if places else (text, None)


@pytest.fixture(scope="module")
def base(shared_server):
    """What the model answers when nothing stops it."""
    return {prompt: plain(shared_server, prompt)[0] for prompt in (FRUITS, EMOJI, COUNT, PROSE)}


def after_emoji(text):
    at = next(i for i, c in enumerate(text) if ord(c) > 0xFFFF)
    return text[at + 1:at + 4]


def emoji(text):
    return next(c for c in text if ord(c) > 0xFFFF)


# prompt, stops made of the answer
STOP_CASES = [
    (PROSE, lambda a: [a[:1]]),
    (PROSE, lambda a: [a[:3]]),
    (PROSE, lambda a: [a]),
    (PROSE, lambda a: [a + "x"]),
    (PROSE, lambda a: [" "]),
    (PROSE, lambda a: [a[-1:]]),
    (PROSE, lambda a: [a[-6:]]),
    (PROSE, lambda a: [a[10:13], a[10:20]]),
    (PROSE, lambda a: [a[20:30], a[10:14], a[5:30] + "?"]),
    (PROSE, lambda a: ["\x00never", a[len(a) // 2:][:5]]),
    (PROSE, lambda a: ["Z" * 200]),
    (FRUITS, lambda a: ["\n"]),
    (FRUITS, lambda a: ["\n-", "\n"]),
    (FRUITS, lambda a: [a[4:16]]),
    (FRUITS, lambda a: ["-", " ", "\n", a[1:9]]),
    (EMOJI, lambda a: [emoji(a)]),
    (EMOJI, lambda a: [after_emoji(a)]),
    (EMOJI, lambda a: [a[:a.index(emoji(a)) + 1]]),
    (COUNT, lambda a: [a[6:18]]),
    (COUNT, lambda a: [a[3:9], a[9:15], a[15:21], a[21:27]]),
]


@pytest.mark.parametrize("number", range(len(STOP_CASES)))
def test_c071_a_stop_says_the_same_streamed_and_plain(server, base, number):
    prompt, make = STOP_CASES[number]
    stops = [s for s in make(base[prompt]) if s]
    text, stop = cut(base[prompt], stops)
    answer = plain(server, prompt, stop=stops)
    assert streamed(server, prompt, stop=stops) == answer
    assert answer[0] == text
    assert answer[1] == ("stop" if stop else "length")
    assert answer[3] == stop
    assert answer[2] <= TOKENS


def test_c064_a_stop_of_several_tokens_ends_the_text_before_it(server, base):
    text, stop = cut(base[COUNT], ["seven eight nine"])
    assert stop, f"the model does not count: {base[COUNT]!r}"
    assert server.count_tokens(stop) >= 3
    assert plain(server, COUNT, stop=[stop], max_tokens=64)[:2] == (text, "stop")


@pytest.mark.parametrize("question", ["Say hello.", "What is 2 + 2? Answer in one word."])
def test_c070_a_stop_that_spells_a_control_token_leaves_the_natural_end(server, question):
    body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 200}
    _, without = server.call("/v1/chat/completions", body)
    status, reply = server.call("/v1/chat/completions", body | {"stop": ["<|im_end|>"]})
    assert status == 200
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] is None
    assert "<|im_end|>" not in choice["message"]["content"]
    assert reply["usage"]["completion_tokens"] < 200
    assert choice == without["choices"][0]


def test_c061_text_held_for_a_stop_is_not_lost_at_the_end(server, base):
    stop = base[PROSE][-3:] + "\nXYZ"
    for ask in (plain, streamed):
        assert ask(server, PROSE, stop=[stop])[:2] == (base[PROSE], "length")


def test_c067_wrong_stops_are_refused_and_no_stop_is_no_stop(server, base):
    for stop in ("", [""], ["", "X"], ["a"] * 5, ["a"] * 1000, ["x" * (1 << 20)], [7], {"a": 1}):
        status, reply = server.call("/v1/completions", body_of(PROSE, stop=stop))
        assert status == 400, stop
        assert reply["error"]["param"].startswith("stop")
    for stop in (None, []):
        assert plain(server, PROSE, stop=stop)[0] == base[PROSE]


def test_c068_a_long_stop_delays_nothing_and_makes_no_empty_chunk(server):
    body = body_of(PROSE, stop=["Z" * 200], stream=True)
    with Http(server.url) as http:
        http.request("POST", "/v1/completions", body)
        assert http.read_head() == 200
        events = list(http.events())
    texts = [e["choices"][0]["text"] for e in events[:-1]]
    assert all(texts[:-1]) and len(texts) > 10


def test_min_tokens_holds_back_a_stop_string(server, base):
    stop = base[FRUITS][:2]
    assert plain(server, FRUITS, stop=[stop])[0] == ""
    text, finish, count, _ = plain(server, FRUITS, stop=["\n"], min_tokens=8)
    assert finish == "stop" and count > 8
    assert base[FRUITS].startswith(text) and "\n" in text


def test_a_word_boundary_lets_a_stop_pass_inside_a_word(server, base):
    answer = base[FRUITS]
    word = answer.split("\n")[0].split()[-1]  # a word behind "- "
    assert plain(server, FRUITS, stop=[word], stop_boundary="word")[0] == answer[:answer.index(word)]
    inside = word[1:]
    for ask in (plain, streamed):
        text, finish, count, _ = ask(server, FRUITS, stop=[inside], stop_boundary="word")
        assert text == answer and finish == "length" and count == TOKENS
        assert ask(server, FRUITS, stop=[inside])[0] == answer[:answer.index(inside)]


def test_a_line_boundary_wants_a_line_of_its_own(server, base):
    answer = base[FRUITS]
    lines = answer.split("\n")
    assert len(lines) > 3
    before = "".join(line + "\n" for line in lines[:lines.index(lines[2])])
    assert plain(server, FRUITS, stop=[lines[2]], stop_boundary="line")[0] == before
    part = lines[2][2:]
    assert part in answer and part not in lines
    assert plain(server, FRUITS, stop=[part], stop_boundary="line")[0] == answer


def constant(server, **fields):
    """An answer of one token over and over: a bias that leaves no choice."""
    return plain(server, PROSE, logit_bias={"18": 100}, **fields)


def test_a_bias_of_100_forces_a_token(server):
    reply = server.complete(PROSE, 5, logit_bias={"18": 100}, logprobs=1, return_tokens_as_token_ids=True)
    logprobs = reply["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:18"] * 5
    assert logprobs["token_logprobs"][0] < -1, "log-probabilities stay those of the raw distribution"


@pytest.mark.parametrize("ngram, times, tokens", [(1, 2, 2), (1, 7, 7), (3, 2, 6), (2, 8, 16)])
def test_a_repetition_ends_the_answer_with_its_own_reason(server, ngram, times, tokens):
    before = server.value(ENDED, finished_reason="repetition")
    stop = {"ngram": ngram, "times": times}
    whole = constant(server)[0]
    for ask in (plain, streamed):
        text, finish, count, reason = ask(server, PROSE, logit_bias={"18": 100}, stop_repetition=stop)
        assert (finish, count, reason) == ("stop", tokens, None)
        assert whole.startswith(text) and text
    server.wait_idle()
    assert server.value(ENDED, finished_reason="repetition") == before + 2


def test_a_repetition_ends_a_chat_and_a_response(server):
    fields = {"temperature": 0, "logit_bias": {"18": 100}, "stop_repetition": {"ngram": 1, "times": 4}}
    status, chat = server.call("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], **fields})
    assert status == 200 and chat["choices"][0]["finish_reason"] == "stop"
    assert chat["usage"]["completion_tokens"] == 4
    status, response = server.call("/v1/responses", {"input": "Hi", **fields})
    assert status == 200 and response["status"] == "completed"
    assert response["usage"]["output_tokens"] == 4


def test_low_confidence_ends_the_answer_with_its_own_reason(server):
    before = server.value(ENDED, finished_reason="confidence")
    for steps in (1, 4):
        for ask in (plain, streamed):
            stop = {"top_k": 1, "mass": 1.0, "steps": steps}
            text, finish, count, reason = ask(server, PROSE, stop_confidence=stop)
            assert (finish, count, reason) == ("stop", steps, None) and text
    assert plain(server, PROSE, stop_confidence={"mass": 0})[1:3] == ("length", TOKENS)
    server.wait_idle()
    assert server.value(ENDED, finished_reason="confidence") == before + 4


def test_low_confidence_follows_the_raw_distribution(server):
    """The step at which it ends is the one that the reported log-probabilities give."""
    top_k, mass, steps = 3, 0.6, 3
    reply = server.complete(PROSE, TOKENS, logprobs=top_k)
    sums = [sum(sorted((math.exp(p) for p in top.values()), reverse=True)[:top_k])
            for top in reply["choices"][0]["logprobs"]["top_logprobs"]]
    low = [all(s < mass for s in sums[max(0, i - steps + 1):i + 1]) and i + 1 >= steps for i in range(len(sums))]
    expected = low.index(True) + 1 if True in low else TOKENS
    stop = {"top_k": top_k, "mass": mass, "steps": steps}
    assert plain(server, PROSE, stop_confidence=stop)[2] == expected


def penalised(server, prompt, **fields):
    """(token ids, per step {id: raw log-probability of the 20 likeliest}) of one answer."""
    reply = server.complete(prompt, TOKENS, logprobs=20, return_tokens_as_token_ids=True, **fields)
    logprobs = reply["choices"][0]["logprobs"]
    ids = [int(t.split(":")[1]) for t in logprobs["tokens"]]
    return ids, [{int(t.split(":")[1]): p for t, p in top.items()} for top in logprobs["top_logprobs"]]


@pytest.mark.parametrize("fields", [{"presence_penalty": 2.0}, {"frequency_penalty": 1.5},
                                    {"presence_penalty": 0.5, "frequency_penalty": -0.25}])
def test_c130_presence_and_frequency_follow_the_formula_over_generated_tokens(server, fields):
    """Both are shifts, so raw log-probabilities are enough to redo the choice."""
    prompt = "blue blue blue blue"
    ids, tops = penalised(server, prompt, **fields)
    for step, (chosen, top) in enumerate(zip(ids, tops)):
        seen = ids[:step]

        def score(token):
            return (top[token] - fields.get("frequency_penalty", 0) * seen.count(token)
                    - fields.get("presence_penalty", 0) * (token in seen))
        best = max(score(t) for t in top)
        assert score(chosen) > best - 1e-3, f"step {step}: token {chosen}"
    plain_ids, plain_tops = penalised(server, prompt)
    assert ids != plain_ids
    assert tops[0] == plain_tops[0] and ids[0] == plain_ids[0], "nothing is generated before the first step"


def test_c130_the_repetition_penalty_counts_the_prompt_at_the_first_step(server):
    prompt = "blue blue blue blue"
    ids, tops = penalised(server, prompt)
    status, reply = server.call("/tokenize", {"prompt": prompt})
    assert status == 200 and ids[0] in reply["tokens"], "the model repeats the prompt's word"
    other, other_tops = penalised(server, prompt, repetition_penalty=1.5)
    assert other[0] != ids[0]
    assert other_tops[0] == tops[0], "reported values stay raw"


def test_c130_penalties_are_the_same_after_a_preemption():
    """Five answers on a pool that holds about three of them, against each alone."""
    fields = {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.2, "temperature": 0.7}
    prompts = [words(20, seed) for seed in range(5)]

    def ask(server, i):
        return server.complete(prompts[i], 80, seed=i, **fields)["choices"][0]["text"]

    server = TroupeProcess("--max-num-seqs", 8, "--num-kv-blocks", 20)
    try:
        alone = [ask(server, i) for i in range(5)]
        assert server.value("troupe_num_preemptions_total") == 0
        together = server.texts_at_once([(prompts[i], 80, {"seed": i} | fields) for i in range(5)])
        assert server.value("troupe_num_preemptions_total") > 0
        assert together == alone
    finally:
        server.stop()


def test_c130_penalties_are_the_same_on_a_cached_prefix(server):
    fields = {"repetition_penalty": 1.3, "frequency_penalty": 0.3}
    first = server.complete(words(80, 130), TOKENS, **fields)
    again = server.complete(words(80, 130), TOKENS, **fields)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64
    assert again["choices"] == first["choices"]
    text = first["choices"][0]["text"]
    stopped = server.complete(words(80, 130), TOKENS, stop=[text[5:9]], **fields)
    assert stopped["choices"][0]["text"] == text[:text.index(text[5:9])]
    assert stopped["usage"]["prompt_tokens_details"] == again["usage"]["prompt_tokens_details"]


def test_a_wrong_field_of_our_own_is_one_clear_error(server):
    for fields, param in [({"stop_repetition": {"ngram": 0, "times": 2}}, "stop_repetition.ngram"),
                          ({"stop_confidence": {"mas": 0.5}}, "stop_confidence.mas"),
                          ({"stop_boundary": "sentence"}, "stop_boundary"),
                          ({"logit_bias": {"9999999": 1}}, "logit_bias.9999999"),
                          ({"deadlines": {"total": 5}}, "deadlines.total"),
                          ({"repetition_penalty": 0}, "repetition_penalty"),
                          ({"n": 10_000}, "n")]:
        status, reply = server.call("/v1/completions", body_of(PROSE, **fields))
        assert status == 400 and reply["error"]["param"] == param, reply
