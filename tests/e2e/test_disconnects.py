"""Clients that leave: every phase of a request, every transport, every way a connection ends.

Each wave runs beside a neighbour stream whose text must equal its solo answer. TROUPE_E2E_SCALE multiplies the
number of victims.
"""

import os
import subprocess
import threading
import time

import pytest

from troupe_process import RUNNING, WAITING, TroupeProcess, words
from wire_client import KILL_KINDS

SLOTS = 4
VICTIMS = 2 * int(os.environ.get("TROUPE_E2E_SCALE", "1"))
NEIGHBOUR = dict(prompt="Here is a list of animals:", max_tokens=72)


@pytest.fixture(scope="module")
def shared_server():
    started = TroupeProcess("--max-num-seqs", SLOTS, "--num-kv-blocks", 1600)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def solo_text(shared_server):
    return shared_server.text(**NEIGHBOUR)


class Neighbour(threading.Thread):
    """A stream that must not notice."""

    def __init__(self, server):
        super().__init__()
        self.server, self.text, self.error = server, None, None
        self.first_event = threading.Event()
        self.start()
        assert self.first_event.wait(20)

    def run(self):
        try:
            self.text = self.server.stream_text(on_event=lambda _: self.first_event.set(), **NEIGHBOUR)
        except Exception as error:  # shown by the test that joins
            self.error = error
            self.first_event.set()


def read_some_events(connection, transport, count):
    if transport == "sse":
        assert connection.read_head() == 200
    events = connection.events()
    for _ in range(count):
        next(events)


def leave(server, connections, transport, kind):
    """Ends all connections at once; returns after the server has counted each."""
    before = server.disconnects(transport=transport)
    for connection in connections:
        connection.kill(kind)
    server.wait_for(lambda m: server.disconnects(m, transport=transport) - before == len(connections),
                    f"{len(connections)} more disconnects counted for {transport}", 5)


def leave_while_queued(server, transport, kind):
    fillers = [server.begin("sse", f"Filler {i}:", 4000) for i in range(SLOTS - 1)]
    server.wait_for(lambda m: m.total(RUNNING) == SLOTS, "all slots taken")
    victims = [server.begin(transport, words(50, seed), 64) for seed in range(VICTIMS)]
    server.wait_for(lambda m: m.total(WAITING) == VICTIMS, "the victims wait")
    leave(server, victims, transport, kind)
    server.wait_for(lambda m: m.total(WAITING) == 0, "the queue is empty", 1)
    for filler in fillers:
        filler.kill("rst")
    return VICTIMS


def leave_in_prefill(server, transport, kind):
    for seed in range(VICTIMS):
        victim = server.begin(transport, words(2500, seed), 64)
        server.wait_for(lambda m: m.total(RUNNING) == 2, "the victim runs")
        time.sleep(0.05)
        leave(server, [victim], transport, kind)
        server.wait_for(lambda m: m.total(RUNNING) <= 1, "the victim's place is free", 1)
    return VICTIMS


def leave_in_decode(server, transport, kind):
    for batch in range(VICTIMS // 2):
        pair = [server.begin(transport, f"Story {batch}-{i}:", 4000) for i in range(2)]
        server.wait_for(lambda m: m.total(RUNNING) == 3, "the victims run")
        if transport == "http":
            time.sleep(0.2)
        else:
            for victim in pair:
                read_some_events(victim, transport, 6)
        leave(server, pair, transport, kind)
        server.wait_for(lambda m: m.total(RUNNING) <= 1, "the victims' places are free", 1)
    return VICTIMS


# Each returns how many clients left.
WAVES = {"queued": leave_while_queued, "prefill": leave_in_prefill, "decode": leave_in_decode}


@pytest.mark.parametrize("kind", KILL_KINDS)
@pytest.mark.parametrize("transport", ["sse", "http", "ws"])
@pytest.mark.parametrize("phase", WAVES)
def test_a_client_that_leaves_gives_its_blocks_back(server, solo_text, phase, transport, kind):
    labels = dict(transport=transport, phase=phase)
    before = server.disconnects(**labels)
    neighbour = Neighbour(server)
    victims = WAVES[phase](server, transport, kind)
    neighbour.join(30)
    assert neighbour.error is None
    assert neighbour.text == solo_text
    metrics = server.wait_idle(2)
    assert server.disconnects(metrics, **labels) - before == victims, "counted under another phase"


def test_a_client_process_killed_by_signal_9_gives_its_blocks_back(server):
    body = '{"prompt": "Story:", "max_tokens": 4000, "ignore_eos": true, "stream": true}'
    client = subprocess.Popen(["curl", "-sN", server.url + "/v1/completions", "-H", "Content-Type: application/json",
                               "-d", body], stdout=subprocess.PIPE)
    for _ in range(6):
        client.stdout.readline()
    client.kill()
    client.wait()
    client.stdout.close()
    server.wait_idle(2)


def test_a_reader_that_stops_reading_does_not_stop_others(server, solo_text):
    with server.begin("sse", "A long story:", 3000) as stalled:
        assert stalled.read_head() == 200
        server.wait_for(lambda m: m.total(RUNNING) == 1, "the stalled stream runs")
        assert server.text(**NEIGHBOUR) == solo_text
        stalled.kill("rst")
    server.wait_idle(2)
