"""The exchanges: every route, every transport, every way an answer stops and every refusal a client can provoke.

Prompts are such that greedy decoding has a clear favourite at every step on every instruction set.
"""

import signal
import time

from exchanges.transcript import RawHttp, RawWebSocket, note_frames, note_reply

MODEL = "tiny"
COUNT = "1, 2, 3, 4,"
CHAT = [{"role": "user", "content": "1 2 3 4 5 6 7"}]
LONG = " ".join(str(number) for number in range(1, 45))
COMMON = ("--served-model-name", MODEL, "--max-model-len", 512, "--num-kv-blocks", 64)
SERVERS = {
    "open": (*COMMON, "--no-enable-prefix-caching", "--debug-endpoints", "--max-ws-queue", 0),
    "cached": COMMON,
    "keyed": (*COMMON, "--api-key", "secret", "--allowed-origins", "http://page.example", "--max-body-bytes", 2048,
              "--max-message-bytes", 2048, "--metrics-open"),
    "scarce": ("--served-model-name", MODEL, "--max-model-len", 64, "--num-kv-blocks", 8, "--max-num-seqs", 1,
               "--max-num-queued-reqs", 1, "--no-enable-prefix-caching"),
    "tiny pool": ("--served-model-name", MODEL, "--max-model-len", 512, "--num-kv-blocks", 2, "--max-num-seqs", 1),
    "impatient": (*COMMON, "--header-timeout", 0.5, "--body-timeout", 0.5, "--debug-endpoints", "--stall-ready-s",
                  0.2, "--stall-health-s", 0.2),
    "leaving": (*COMMON, "--shutdown-timeout", 60),
}
CASES = {}  # name -> (server, what runs it: (script, server process))


def case(name, server, run):
    if name in CASES:
        raise ValueError(f"two exchanges are named {name}")
    CASES[name] = (server, run)


def once(name, method, path, body=None, server="open", headers=(), raw=None, frozen_ms=0):
    """One request on a connection of its own, with an id of ours unless `headers` say otherwise."""
    def run(script, process):
        if frozen_ms:
            freeze(process, frozen_ms)
        with RawHttp(process.url) as http:
            if raw is not None:
                http.send(raw)
            else:
                http.request(method, path, body, [("X-Request-Id", "ours"), *headers])
            note_reply(script, http, no_body=method == "HEAD")
    case(name, server, run)


def freeze(process, ms):
    """The device begins its next step that much later: what ends before has no token, on every machine."""
    status, _ = process.call("/debug/freeze", {"ms": ms})
    assert status == 200


def post(name, path, body, **more):
    once(name, "POST", path, body, **more)


def completion(name, server="open", frozen_ms=0, **fields):
    post(name, "/v1/completions", {"prompt": COUNT, "max_tokens": 3, "temperature": 0, **fields}, server=server,
         frozen_ms=frozen_ms)


def chat(name, server="open", **fields):
    post(name, "/v1/chat/completions", {"messages": CHAT, "max_tokens": 3, "temperature": 0, **fields},
         server=server)


def response(name, server="open", frozen_ms=0, **fields):
    post(name, "/v1/responses", {"input": CHAT[0]["content"], "max_output_tokens": 3, "temperature": 0, **fields},
         server=server, frozen_ms=frozen_ms)


def socket(name, *frames, server="open", last=("response.completed", "response.incomplete", "response.failed",
                                              "error", "response.steer.failed"), headers=(), frozen_ms=0, **changed):
    """One WebSocket: each frame is sent when the answer to the one before has ended. (opcode, bytes) or an object."""
    def run(script, process):
        if frozen_ms:
            freeze(process, frozen_ms)
        with RawWebSocket(process.url) as ws:
            ws.shake(script, headers=headers, **changed)
            for frame in frames:
                if isinstance(frame, tuple):
                    ws.send_frame(*frame)
                else:
                    ws.send_json(frame)
                note_frames(script, ws.collect(last))
    case(name, server, run)


def create(**fields):
    return {"type": "response.create", "input": CHAT[0]["content"], "max_output_tokens": 3, "temperature": 0, **fields}


# Routes that generate nothing

once("health", "GET", "/health")
once("ready", "GET", "/ready")
once("version", "GET", "/version")
once("metrics: the families", "GET", "/metrics")
once("health by HEAD", "HEAD", "/health")
once("models", "GET", "/v1/models")
once("one model", "GET", f"/v1/models/{MODEL}")
once("a model that is not there", "GET", "/v1/models/other")
once("tokenizer", "GET", "/tokenizer_info")
once("an id of the server's own", "GET", "/version", headers=(("X-Request-Id", "x" * 129),))
once("a request of HTTP/1.0", "GET", "/version", raw=b"GET /version HTTP/1.0\r\n\r\n")
post("tokenize", "/tokenize", {"prompt": "one two", "return_token_strs": True})
post("tokenize messages", "/tokenize", {"messages": CHAT})
post("detokenize", "/detokenize", {"tokens": [49, 216, 50]})
post("cancel of an unknown id", "/v1/requests/cmpl-none/cancel", None)
once("the audit of an idle server", "GET", "/debug/kv", server="impatient")
post("freeze wants a time", "/debug/freeze", {"ms": 0})
once("debug endpoints that are off", "GET", "/debug/kv", server="cached")

# Answers, plain and streamed

completion("completion")
completion("completion streamed", stream=True)
completion("completion with usage", stream=True, stream_options={"include_usage": True})
completion("completion with log-probabilities", logprobs=2)
completion("completion with log-probabilities streamed", logprobs=1, stream=True)
completion("echo", echo=True)
completion("echo streamed", echo=True, stream=True)
completion("echo with log-probabilities", echo=True, logprobs=1, max_tokens=2)
completion("echo alone", echo=True, max_tokens=0)
completion("n", n=2)
completion("n streamed with log-probabilities", n=2, stream=True, logprobs=1)
completion("two prompts", prompt=[COUNT, "5, 6, 7, 8,"])
completion("a prompt of tokens", prompt=[33, 28, 216, 34, 28, 216, 35, 28])
completion("token ids instead of words", logprobs=1, return_tokens_as_token_ids=True)
completion("seeded", seed=7, temperature=0.01)
completion("biased", logit_bias={"49": 100}, max_tokens=2)
chat("chat")
chat("chat streamed", stream=True)
chat("chat with usage", stream=True, stream_options={"include_usage": True})
chat("chat with log-probabilities", logprobs=True, top_logprobs=1)
chat("chat with log-probabilities streamed", logprobs=True, stream=True)
chat("chat, two choices streamed", n=2, stream=True)
chat("chat with a system message", messages=[{"role": "system", "content": "Count."}, *CHAT])
response("response")
response("response streamed", stream=True)
response("response with instructions", instructions="Count.", metadata={"a": "b"})
completion("a prompt found in the cache, first", server="cached", prompt=LONG, max_tokens=1)
completion("a prompt found in the cache, again", server="cached", prompt=LONG, max_tokens=1)

# Every way to stop

completion("stop at a string", stop=[", 6"], max_tokens=12)
completion("stop at a string streamed", stop=[", 6"], max_tokens=12, stream=True)
completion("stop at a string that stays", stop=[", 6"], include_stop_str_in_output=True, max_tokens=12)
completion("stop at a word", stop=["5"], stop_boundary="word", max_tokens=12)
completion("stop at a token", stop_token_ids=[38], max_tokens=12)
completion("stop at low confidence", max_tokens=12, stop_confidence={"top_k": 1, "mass": 1, "steps": 2})
completion("stop at a repetition", max_tokens=12, logit_bias={"49": 100}, stop_repetition={"ngram": 1, "times": 3})
completion("stop at the end token", logit_bias={"2": 100}, max_tokens=12)
completion("the end token ignored", logit_bias={"2": 100}, max_tokens=2, ignore_eos=True, skip_special_tokens=False)
completion("stop at the context", prompt=[33] * 60, max_tokens=-1, ignore_eos=True, server="scarce")
chat("chat ends at its stop", stop=["1.1.1"], max_tokens=12, stream=True)


def cancelled_by_id(transport):
    def run(script, process):
        freeze(process, 3000)
        with RawHttp(process.url) as http, RawHttp(process.url) as other:
            http.request("POST", "/v1/completions" if transport == "sse" else "/v1/chat/completions",
                         {"prompt": COUNT, "messages": CHAT, "stream": True, "temperature": 0})
            while b"\r\n\r\n" not in http.buffer:
                http.fill()
            identifier = next(line.split(b": ")[1] for line in http.buffer.split(b"\r\n")
                              if line.startswith(b"X-Troupe-Id")).decode()
            other.request("POST", f"/v1/requests/{identifier}/cancel")
            note_reply(script, other)
            note_reply(script, http)
    return run


case("cancelled by id", "open", cancelled_by_id("sse"))
case("a chat cancelled by id", "open", cancelled_by_id("chat"))

# Refusals of a body

completion("refused: no prompt", prompt=None)
completion("refused: an empty prompt", prompt="")
completion("refused: a token that is not in the vocabulary", prompt=[999999])
completion("refused: out of range", top_p=2)
completion("refused: wrong type", max_tokens="many")
completion("refused: too many stops", stop=["a", "b", "c", "d", "e"])
completion("refused: an unknown word", stop_boundary="words")
completion("refused: an unknown key of ours", stop_repetition={"ngram": 1, "time": 3})
completion("refused: a priority under fcfs", priority=1)
completion("refused: more choices than may be", n=17)
completion("refused: best_of beyond n", best_of=3)
completion("refused: a suffix", suffix="x")
completion("refused: another model", model="other")
completion("refused: too long for the context", prompt=[33] * 512, max_tokens=1)
completion("refused: too long for the pool", server="tiny pool", prompt=[33] * 40, max_tokens=9)
chat("refused: no messages", messages=[])
chat("refused: an unknown role", messages=[{"role": "wizard", "content": "x"}])
chat("refused: an image", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])
chat("refused: tools", tools=[{"type": "function", "function": {"name": "f"}}])
chat("refused: a response format", response_format={"type": "json_object"})
response("refused: a previous response", previous_response_id="resp_1")
response("refused: in the background", background=True)
post("refused: no JSON", "/v1/completions", b'{"prompt": "a",}')
post("refused: a list", "/v1/chat/completions", b"[]")
post("refused: no body", "/v1/completions", b"")
post("refused: a key twice", "/v1/completions", b'{"prompt":"a","prompt":"b"}')
post("refused: tokenize nothing", "/tokenize", {})
post("refused: detokenize words", "/detokenize", {"tokens": ["a"]})
post("refused: a deadline that is no number", "/v1/completions", {"prompt": COUNT}, headers=(("X-Request-Timeout-Ms", "soon"),))

# Refusals of a request

once("refused: an unknown path", "GET", "/v2/models")
once("refused: another method", "GET", "/v1/completions")
once("refused: a socket's route without a socket", "GET", "/v1/responses")
post("refused: not JSON by type", "/tokenize", None,
     raw=b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ours\r\nContent-Type: text/plain\r\n"
         b"Content-Length: 2\r\n\r\n{}")
post("refused: a coding", "/tokenize", {"prompt": "a"}, headers=(("Content-Encoding", "gzip"),))
post("refused: an expectation", "/tokenize", {"prompt": "a"}, headers=(("Expect", "the-best"),))
once("refused: long header fields", "GET", "/health", headers=(("X-Long", "x" * 40000),))
once("refused: not HTTP", "GET", "/", raw=b"HELLO\r\n\r\n")
post("refused: a body too large", "/v1/completions", {"prompt": "x" * 4000}, server="keyed",
     headers=(("Authorization", "Bearer secret"),))
once("refused: no key", "GET", "/v1/models", server="keyed")
post("refused: a wrong key", "/v1/completions", {"prompt": COUNT}, server="keyed",
     headers=(("Authorization", "Bearer wrong"),))
post("a page that is served", "/v1/completions", {"prompt": COUNT, "max_tokens": 1, "temperature": 0}, server="keyed",
     headers=(("Authorization", "Bearer secret"), ("Origin", "http://page.example")))
post("refused: another page", "/v1/completions", {"prompt": COUNT}, server="keyed",
     headers=(("Authorization", "Bearer secret"), ("Origin", "http://other.example")))
once("preflight of a page that is served", "OPTIONS", "/v1/chat/completions", server="keyed",
     headers=(("Origin", "http://page.example"), ("Access-Control-Request-Method", "POST"),
              ("Access-Control-Request-Headers", "authorization,content-type")))
once("preflight of another page", "OPTIONS", "/v1/chat/completions", server="keyed",
     headers=(("Origin", "http://other.example"), ("Access-Control-Request-Method", "POST")))
once("preflight without a page", "OPTIONS", "/v1/models")


# Deadlines, overload, stalls and the end

completion("a deadline is over", frozen_ms=1000, deadlines={"total_ms": 50})
completion("a stream's deadline is over", frozen_ms=1000, deadlines={"total_ms": 50}, stream=True)
completion("no first token in time", frozen_ms=1000, deadlines={"first_token_ms": 50})
response("a response's deadline is over", frozen_ms=1000, deadlines={"total_ms": 50}, stream=True)
once("a deadline by header is over", "POST", "/v1/completions", {"prompt": COUNT}, frozen_ms=1000,
     headers=(("X-Request-Timeout-Ms", "50"),))


def overloaded(script, process):
    body = {"prompt": COUNT, "max_tokens": 40, "ignore_eos": True, "stream": True}
    first = process.begin("sse", COUNT, 40)
    process.wait_for(lambda m: m.total("troupe_num_requests_running") == 1, "one runs", 120)
    with RawHttp(process.url) as late:
        late.request("POST", "/v1/completions", {**body, "deadlines": {"queue_ms": 1}}, [("X-Request-Id", "ours")])
        note_reply(script, late)
    second = process.begin("sse", COUNT, 40)
    process.wait_for(lambda m: m.total("troupe_num_requests_waiting") == 1, "one waits", 120)
    with RawHttp(process.url) as third:
        third.request("POST", "/v1/completions", body, [("X-Request-Id", "ours")])
        note_reply(script, third)
    first.close()
    second.close()
    process.wait_idle(120)


case("refused: no place, and none in the queue", "scarce", overloaded)


def too_slow(sent):
    def run(script, process):
        with RawHttp(process.url) as http:
            http.send(sent)
            note_reply(script, http)
    return run


case("refused: a head that does not come", "impatient", too_slow(b"GET /health HTTP/1.1\r\nHost:"))
case("refused: a body that does not come", "impatient",
     too_slow(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ours\r\nContent-Length: 9\r\n\r\n{"))


def stalled(script, process):
    with RawHttp(process.url) as http:
        http.request("POST", "/debug/freeze", {"ms": 5000}, [("X-Request-Id", "ours")])
        note_reply(script, http)
    running = process.begin("sse", COUNT, 1)
    for path in ("/ready", "/health"):
        status = 200
        while status == 200:  # until the limit of a fifth of a second is over
            status, _ = process.call(path)
            time.sleep(0.05)
        with RawHttp(process.url) as http:
            http.request("GET", path, None, [("X-Request-Id", "ours")])
            note_reply(script, http)
    running.close()
    process.wait_idle(120)


case("a device that does not answer", "impatient", stalled)


def leaving(script, process):
    """Requests that are half there when SIGTERM comes; idle connections are closed."""
    running = process.begin("sse", COUNT, 150)
    assert running.read_head() == 200
    body = b'{"prompt": "1"}'
    requests = (b"GET /ready HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ours\r\n\r\n",
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ours\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    with RawHttp(process.url) as ready, RawHttp(process.url) as late, RawWebSocket(process.url) as ws:
        for http, request in zip((ready, late), requests):
            http.call("GET", "/health")
            http.send(request[:20])
        ws.shake(script)
        process.process.send_signal(signal.SIGTERM)
        note_frames(script, ws.collect(()))  # its close shows that the server is leaving
        for http, request in zip((ready, late), requests):
            http.send(request[20:])
            note_reply(script, http)
    running.close()
    process.wait_exit(300)


case("the server leaves", "leaving", leaving)

# The WebSocket

socket("socket", create())
socket("socket: two responses in turn", create(), create(instructions="Count."))
socket("socket: events it does not know", {"type": "response.dance"}, {"type": "response.steer"}, (1, b"{"),
       {"type": "response.create"}, create(stream_id="a"), create(generate=False), create(max_output_tokens=0),
       create(previous_response_id="resp_1"), create(model="other"))
socket("socket: a ping", (9, b"are you there"))
socket("socket: a binary frame", (2, b"{}"))
socket("socket: bad UTF-8", (1, b'{"type":"\xff"}'))
socket("socket: a close", (8, b"\x03\xe8bye"))
socket("socket: a message too large", (1, b" " * 3000), server="keyed", headers=(("Authorization", "Bearer secret"),))
socket("socket: a key among the protocols", server="keyed",
       headers=(("Sec-WebSocket-Protocol", "responses, openai-insecure-api-key.secret"),))
socket("socket refused: no key", server="keyed")
socket("socket refused: another page", server="keyed", headers=(("Authorization", "Bearer secret"), ("Origin", "http://other.example")))
socket("socket: a deadline is over", create(deadlines={"total_ms": 50}), frozen_ms=1000, last=("response.failed",))


def socket_cancel(script, process):
    freeze(process, 3000)
    with RawWebSocket(process.url) as ws:
        ws.shake(script)
        ws.send_json(create(max_output_tokens=50))
        frames = ws.collect(("response.content_part.added",))
        ws.send_json(create())  # no place in a queue of none
        frames += ws.collect(("error",))
        ws.send_json({"type": "response.cancel", "response_id": "resp_other"})
        ws.send_json({"type": "response.cancel"})
        note_frames(script, frames + ws.collect(("response.incomplete",)))


case("socket: one too many, and a cancel", "open", socket_cancel)
