"""Chat and completions over plain HTTP: the wire format as a client sees it."""

import pytest

from wire_client import Http

CHAT = {"messages": [{"role": "user", "content": "Name three colours."}], "temperature": 0, "max_tokens": 24}


def read_stream(server, path, body):
    with Http(server.url) as http:
        http.request("POST", path, {**body, "stream": True})
        assert http.read_head() == 200
        assert http.headers["content-type"].startswith("text/event-stream")
        return list(http.events())


def test_a_plain_chat_reply_has_the_documented_shape(server):
    status, reply = server.call("/v1/chat/completions", CHAT)
    assert status == 200
    assert reply["object"] == "chat.completion"
    (choice,) = reply["choices"]
    assert choice["message"]["role"] == "assistant" and choice["message"]["content"]
    assert choice["finish_reason"] in ("stop", "length")
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["completion_tokens"] <= 24


def test_a_streamed_chat_says_the_same_as_the_plain_one(server):
    _, plain = server.call("/v1/chat/completions", CHAT)
    events = read_stream(server, "/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]"
    chunks = events[:-1]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert text == plain["choices"][0]["message"]["content"]
    finishes = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"] and c["choices"][0]["finish_reason"]]
    assert finishes == [plain["choices"][0]["finish_reason"]]
    assert chunks[-1]["choices"] == []
    for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert chunks[-1]["usage"][key] == plain["usage"][key]


def test_a_streamed_completion_says_the_same_as_the_plain_one(server):
    body = {"prompt": "The three largest rivers are", "max_tokens": 20, "temperature": 0}
    _, plain = server.call("/v1/completions", body)
    events = read_stream(server, "/v1/completions", body)
    assert events[-1] == "[DONE]"
    assert "".join(e["choices"][0]["text"] for e in events[:-1]) == plain["choices"][0]["text"]


def test_a_seed_fixes_a_sampled_answer_and_another_seed_changes_it(server):
    body = dict(temperature=0.9, seed=11)
    first = server.text("Once upon a time", 32, **body)
    assert server.text("Once upon a time", 32, **body) == first
    assert server.text("Once upon a time", 32, temperature=0.9, seed=12) != first


def test_one_connection_serves_a_stream_then_a_plain_request(server):
    with Http(server.url) as http:
        http.request("POST", "/v1/completions", {"prompt": "Hello", "max_tokens": 8, "stream": True})
        assert http.read_head() == 200
        assert list(http.events())[-1] == "[DONE]"
        status, reply = http.call("GET", "/v1/models")
        assert status == 200 and reply["data"][0]["object"] == "model"


def test_a_stop_string_ends_the_text_before_it(server):
    whole = server.text("Count: one, two, three,", 40)
    middle = whole[len(whole) // 2:][:6]
    reply = server.complete("Count: one, two, three,", 40, stop=[middle])
    assert reply["choices"][0]["text"] == whole[: whole.index(middle)]
    assert reply["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("body, status, param, code", [
    ({"prompt": "x", "temperature": 9}, 400, "temperature", None),
    ({"prompt": "x", "max_tokens": -7}, 400, "max_tokens", None),
    ({"prompt": "x", "model": "no-such-model"}, 404, "model", "model_not_found"),
    ({}, 400, "prompt", None),
])
def test_a_bad_field_gets_one_error_that_names_it(server, body, status, param, code):
    got, reply = server.call("/v1/completions", body)
    assert got == status
    assert set(reply["error"]) == {"message", "type", "param", "code"}
    assert reply["error"]["param"] == param
    if code:
        assert reply["error"]["code"] == code


def test_text_that_is_not_json_gets_400_and_unknown_paths_404(server):
    with Http(server.url) as http:
        status, reply = http.call("POST", "/v1/completions", b"{\"prompt\": ")
        assert status == 400 and reply["error"]["type"] == "invalid_request_error"
    status, reply = server.call("/v1/nothing")
    assert status == 404 and reply["error"]["code"] == "unknown_url"


def test_a_request_is_cancelled_by_its_id_over_http(server):
    with server.begin("sse", "Tell a long story", 2000) as http:
        assert http.read_head() == 200
        events = http.events()
        identity = next(events)["id"]
        assert http.headers["x-troupe-id"] == identity
        assert server.call(f"/v1/requests/{identity}/cancel", {})[0] == 200
        assert list(events)[-1] == "[DONE]"
    server.wait_idle()
    assert server.call(f"/v1/requests/{identity}/cancel", {})[0] == 200
    assert server.call("/v1/requests/cmpl-000000000000000000000000/cancel", {})[0] == 404


def test_the_metrics_page_is_valid_and_its_books_balance(server):
    server.text("Hello", 8)
    metrics = server.wait_idle()
    for name in ("troupe_num_requests_running", "troupe_num_requests_waiting", "troupe_kv_blocks_total",
                 "troupe_kv_blocks_used", "troupe_kv_blocks_cached", "troupe_kv_blocks_allocated_total",
                 "troupe_kv_leaked_blocks", "troupe_prompt_tokens_total", "troupe_generation_tokens_total"):
        assert metrics.has(name), name
    for name in ("troupe_kv_release_latency_seconds", "troupe_time_to_first_token_seconds",
                 "troupe_inter_token_latency_seconds", "troupe_e2e_request_latency_seconds"):
        assert metrics.buckets(name), name
