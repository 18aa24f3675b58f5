"""Clients that leave: every phase of a request, every transport, every way a connection ends.

Each wave runs beside a neighbour stream whose text must equal its solo answer. TROUPE_E2E_SCALE is the number of
waves of each kind.
"""

import os
import subprocess
import threading
import time

import pytest

from troupe_process import HANG_S, RUNNING, USED, WAITING, TroupeProcess, words
from wire_client import KILL_KINDS

STEPS = "troupe_step_seconds_count"

SLOTS = 4
VICTIMS = 2
ROUNDS = int(os.environ.get("TROUPE_E2E_SCALE", "1"))
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
        assert self.first_event.wait(HANG_S)

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


def leave(server, connections, transport, kind, phase):
    """Ends all connections at once; returns after the server has counted each, under the right phase."""
    before = server.metrics()
    for connection in connections:
        connection.kill(kind)

    def counted(metrics, **labels):
        return server.disconnects(metrics, **labels) - server.disconnects(before, **labels)

    after = server.wait_for(lambda m: counted(m, transport=transport) == len(connections),
                            f"{len(connections)} more disconnects counted for {transport}")
    assert counted(after, transport=transport, phase=phase) == len(connections), "counted under another phase"


def leave_while_queued(server, neighbour, transport, kind):
    # One filler more than places: it is the one to move up when the neighbour ends, not a victim.
    fillers = [server.begin("sse", f"Filler {i}:", 4000) for i in range(SLOTS)]
    server.wait_for(lambda m: m.total(RUNNING) == SLOTS, "all slots taken")
    victims = [server.begin(transport, words(50, seed), 64) for seed in range(VICTIMS)]
    server.wait_for(lambda m: m.total(WAITING) == VICTIMS + neighbour.is_alive(), "the victims wait")
    leave(server, victims, transport, kind, "queued")
    server.wait_for(lambda m: m.total(WAITING) <= 1, "no victim waits")
    for filler in fillers:
        filler.kill("rst")


def leave_in_prefill(server, neighbour, transport, kind):
    for seed in range(VICTIMS):
        victim = server.begin(transport, words(2500, seed), 64)
        server.wait_for(lambda m: m.total(USED) >= 2500 / 16, "the victim runs")
        time.sleep(0.05)  # its first chunk is under way
        leave(server, [victim], transport, kind, "prefill")
        server.wait_for(lambda m: m.total(USED) < 2500 / 16, "the victim's blocks are back")


def leave_in_decode(server, neighbour, transport, kind):
    victims = [server.begin(transport, f"Story {i}:", 4000) for i in range(VICTIMS)]
    server.wait_for(lambda m: m.total(RUNNING) == VICTIMS + neighbour.is_alive(), "the victims run")
    if transport == "http":
        steps = server.value(STEPS)  # nothing is sent before the end
        server.wait_for(lambda m: m.total(STEPS) >= steps + 8, "steps that decode")
    else:
        for victim in victims:
            read_some_events(victim, transport, 6)
    leave(server, victims, transport, kind, "decode")
    server.wait_for(lambda m: m.total(RUNNING) <= 1, "the victims' places are free")


WAVES = {"queued": leave_while_queued, "prefill": leave_in_prefill, "decode": leave_in_decode}


@pytest.mark.parametrize("kind", KILL_KINDS)
@pytest.mark.parametrize("transport", ["sse", "http", "ws"])
@pytest.mark.parametrize("phase", WAVES)
def test_a_client_that_leaves_gives_its_blocks_back(server, solo_text, phase, transport, kind):
    for _ in range(ROUNDS):
        neighbour = Neighbour(server)
        WAVES[phase](server, neighbour, transport, kind)
        neighbour.join(300)
        assert neighbour.error is None
        assert neighbour.text == solo_text
        server.wait_idle()


def test_a_client_process_killed_by_signal_9_gives_its_blocks_back(server):
    body = '{"prompt": "Story:", "max_tokens": 4000, "ignore_eos": true, "stream": true}'
    client = subprocess.Popen(["curl", "-sN", server.url + "/v1/completions", "-H", "Content-Type: application/json",
                               "-d", body], stdout=subprocess.PIPE)
    for _ in range(6):
        client.stdout.readline()
    client.kill()
    client.wait()
    client.stdout.close()
    server.wait_idle()


def test_a_reader_that_stops_reading_does_not_stop_others(server, solo_text):
    with server.begin("sse", "A long story:", 3000) as stalled:
        assert stalled.read_head() == 200
        server.wait_for(lambda m: m.total(RUNNING) == 1, "the stalled stream runs")
        assert server.text(**NEIGHBOUR) == solo_text
        stalled.kill("rst")
    server.wait_idle()
