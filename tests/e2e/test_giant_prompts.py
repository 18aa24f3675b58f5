"""Prompts that are far too long, or long without a space: they are read in slices, and nobody else waits for them."""

import signal
import threading
import time

import pytest

from troupe_process import USED

TOO_LONG = "a" * 4_000_000
LONG_WORD = "a" * 600_000  # its bytes alone would fit, its tokens don't
NEIGHBOUR = dict(prompt="Tell me a long story", max_tokens=3000)


def ask(text, api):
    if api == "chat":
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    if api == "choices":
        return "/v1/completions", {"prompt": text, "max_tokens": 1, "n": 2}
    if api == "list":
        return "/v1/completions", {"prompt": [text[:1_900_000]] * 2, "max_tokens": 1}
    return "/v1/responses", {"input": text, "max_output_tokens": 1}


class Refused(threading.Thread):
    def __init__(self, server, text, api):
        super().__init__()
        self.server, self.text, self.api, self.reply, self.error = server, text, api, None, None
        self.start()

    def run(self):
        try:
            self.reply = self.server.call(*ask(self.text, self.api))
        except Exception as error:  # shown by the test that joins
            self.error = error

    def check(self):
        self.join(300)
        assert self.reply, self.error or "no answer"
        status, reply = self.reply
        assert status == 400 and reply["error"]["code"] == "context_length_exceeded", reply
        assert "maximum context length is 8192 tokens" in reply["error"]["message"]
        assert "at least" in reply["error"]["message"]


@pytest.mark.parametrize("api", ["chat", "choices", "list", "responses"])
@pytest.mark.parametrize("text", [TOO_LONG, LONG_WORD], ids=["too long by its bytes", "a word without end"])
def test_a_neighbour_that_resets_beside_giant_prompts_gives_its_blocks_back_soon(server, text, api):
    neighbour = server.begin("sse", **NEIGHBOUR)
    assert neighbour.read_head() == 200
    events = neighbour.events()
    next(events)
    giants = [Refused(server, text, api) for _ in range(4)]
    time.sleep(0.1)
    for _ in range(5):
        next(events)
    neighbour.kill("rst")
    server.wait_for(lambda m: m.total(USED) == 0, "the neighbour's blocks are back")
    if text is LONG_WORD:  # read in one go, the four would have had their answers before
        assert not all(giant.reply for giant in giants)
    for giant in giants:
        giant.check()
    server.wait_idle()


def test_clients_that_leave_while_their_giant_prompt_is_read_leave_nothing_behind(server):
    before = server.value("troupe_client_disconnects_total", phase="queued")
    clients = [server.begin("sse", LONG_WORD, 1) for _ in range(8)]
    time.sleep(0.05)
    for client in clients:
        client.kill("rst")
    server.wait_for(lambda m: m.total("troupe_client_disconnects_total", phase="queued") - before == len(clients),
                    "all are counted as gone from the queue")
    server.wait_idle()


def test_the_end_comes_in_time_while_giant_prompts_are_read(serve):
    server = serve("--shutdown-timeout", 1)
    clients = [server.begin("sse", LONG_WORD, 1) for _ in range(8)]
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_exit() == 0
    for client in clients:
        client.close()
