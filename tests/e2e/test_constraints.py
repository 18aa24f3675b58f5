"""`allowed_token_ids` and `bad_words`: what they forbid is never in an answer, whatever else bends it, and the answer is
the same alone, among others and behind a preemption. Words are cut out of the model's own answers, so that the tests
hold for any model."""

import pytest

from troupe_process import TroupeProcess, words

PROSE = "The three largest rivers are"
TOKENS = 40
WAYS = [{}, {"temperature": 0.9, "seed": 7}, {"temperature": 0.9, "seed": 7, "top_k": 20, "top_p": 0.9},
        {"repetition_penalty": 1.3, "presence_penalty": 0.5}]


def ids_of(reply):
    (choice,) = reply["choices"]
    return [int(name.removeprefix("token_id:")) for name in choice["logprobs"]["tokens"]]


def generated(server, prompt=PROSE, tokens=TOKENS, **fields):
    return ids_of(server.complete(prompt, tokens, logprobs=0, return_tokens_as_token_ids=True, **fields))


def tokens_of(server, text):
    status, reply = server.call("/tokenize", {"prompt": text, "add_special_tokens": False})
    assert status == 200, reply
    return reply["tokens"]


def text_of(server, tokens):
    status, reply = server.call("/detokenize", {"tokens": tokens})
    assert status == 200, reply
    return reply["prompt"]


@pytest.mark.parametrize("way", WAYS)
def test_only_allowed_tokens_are_drawn_whatever_their_bias(server, way):
    free = generated(server, **way)
    allowed = sorted(set(free))[::2]
    other = next(t for t in free if t not in allowed)
    got = generated(server, allowed_token_ids=allowed, logit_bias={str(other): 100}, **way)
    assert len(got) == TOKENS and set(got) <= set(allowed)


@pytest.mark.parametrize("way", WAYS)
def test_a_word_of_one_token_never_comes_plain_or_behind_a_space(server, way):
    free = generated(server, **way)
    word = next(text.strip() for t in free if (text := text_of(server, [t])).startswith(" ") and text.strip().isalpha()
                and len(tokens_of(server, text.strip())) == len(tokens_of(server, text)) == 1)
    forbidden = {tokens_of(server, word)[0], tokens_of(server, " " + word)[0]}
    assert forbidden & set(free)
    got = generated(server, bad_words=[word], **way)
    assert len(got) == TOKENS and not forbidden & set(got)


def test_a_longer_word_loses_its_last_token_behind_all_the_others_and_nowhere_else(server):
    free = generated(server)
    at, word = next((i, text) for i in range(len(free) - 1)
                    if (text := text_of(server, free[i:i + 2]).strip()) and
                    tokens_of(server, " " + text) == free[i:i + 2] and len(tokens_of(server, text)) == 2)
    got = generated(server, bad_words=[word])
    first, last = free[at:at + 2]
    assert got[:at + 1] == free[:at + 1], "up to its last token nothing changes"
    assert (first, last) not in list(zip(got, got[1:]))


def test_a_constraint_that_leaves_no_token_ends_the_request_by_name(server):
    prompt_tokens = tokens_of(server, " the")
    status, reply = server.call("/v1/completions", {
        "prompt": PROSE, "max_tokens": 5, "allowed_token_ids": prompt_tokens, "stop_token_ids": prompt_tokens,
        "min_tokens": 2})
    assert status == 400 and reply["error"]["code"] == "no_token_allowed", reply
    assert "0 tokens" in reply["error"]["message"] and "'allowed_token_ids'" in reply["error"]["message"]
    server.wait_idle()
    assert len(generated(server)) == TOKENS, "the next request is served"


def test_an_allowed_stop_token_stops_and_an_end_token_that_is_not_allowed_never_comes(server):
    allowed = tokens_of(server, " the")
    body = {"prompt": PROSE, "max_tokens": 12, "allowed_token_ids": allowed}
    status, reply = server.call("/v1/completions", body)
    assert status == 200 and reply["usage"]["completion_tokens"] == 12, reply
    assert reply["choices"][0]["finish_reason"] == "length"
    status, reply = server.call("/v1/completions", body | {"stop_token_ids": allowed, "min_tokens": 0})
    assert status == 200 and reply["usage"]["completion_tokens"] == 1, reply
    assert reply["choices"][0]["stop_reason"] == allowed[0]


def test_each_choice_obeys_and_equals_its_single_request(server):
    fields = {"bad_words": ["the", "river"], "temperature": 0.8, "seed": 5}
    reply = server.complete(PROSE, 20, n=3, **fields)
    texts = [c["text"] for c in sorted(reply["choices"], key=lambda c: c["index"])]
    alone = [server.text(PROSE, 20, **fields | {"seed": 5 + i}) for i in range(3)]
    assert texts == alone
    for text in texts:
        assert " the " not in text and " river " not in text


def test_p3_constrained_answers_are_the_same_after_a_preemption():
    """Five answers on a pool that holds about three of them, against each alone."""
    prompts = [words(20, seed) for seed in range(5)]
    server = TroupeProcess("--max-num-seqs", 8, "--num-kv-blocks", 20)
    try:
        free = [generated(server, prompt, 80) for prompt in prompts]
        fields = [{"bad_words": [text_of(server, free[i][8:10]).strip() or "x", "the"], "temperature": 0.7, "seed": i,
                   "repetition_penalty": 1.2, "logit_bias": {str(free[i][0]): 2},
                   **({"allowed_token_ids": sorted({t for f in free for t in f})} if i % 2 else {})}
                  for i in range(5)]
        alone = [server.text(prompts[i], 80, **fields[i]) for i in range(5)]
        assert server.value("troupe_num_preemptions_total") == 0
        together = server.texts_at_once([(prompts[i], 80, fields[i]) for i in range(5)])
        assert server.value("troupe_num_preemptions_total") > 0
        assert together == alone
    finally:
        server.stop()


def test_each_wrong_value_is_a_400_that_names_the_field(server):
    for fields, param in [({"allowed_token_ids": []}, "allowed_token_ids"),
                          ({"allowed_token_ids": [0, 9_999_999]}, "allowed_token_ids[1]"),
                          ({"allowed_token_ids": "a"}, "allowed_token_ids"),
                          ({"bad_words": ["a", ""]}, "bad_words[1]"),
                          ({"bad_words": "a"}, "bad_words"),
                          ({"bad_words": ["a"] * 257}, "bad_words")]:
        for path, prompt in [("/v1/completions", {"prompt": "x"}),
                             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                             ("/v1/responses", {"input": "x"})]:
            status, reply = server.call(path, prompt | fields)
            assert status == 400 and reply["error"]["param"] == param, reply
