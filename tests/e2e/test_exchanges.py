"""Every recorded exchange has the same bytes today: heads, bodies, events and frames (tests/data/exchanges.txt)."""

import difflib

import pytest

from exchanges.cases import CASES
from exchanges.replay import Replay, isa, read_record

RECORD = read_record()
# The record is made with avx2. Other kernels round differently, by up to a few tenths where the model is unsure.
TOLERANCE = 0.02 if isa == "avx2" else 0.4


@pytest.fixture(scope="module")
def replay():
    with Replay() as servers:
        yield servers


def test_every_exchange_is_recorded_and_nothing_else_is():
    assert list(RECORD) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_bytes_of_an_exchange_are_those_of_the_record(replay, name):
    text, logprobs = replay.run(name)
    recorded, numbers = RECORD[name]
    changes = list(difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm=""))
    assert not changes, "\n".join(changes)
    assert logprobs == pytest.approx(numbers, abs=TOLERANCE)
