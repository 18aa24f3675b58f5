"""Fixtures: a server shared by one test file, and servers with options of their own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from troupe_process import TroupeProcess  # noqa: E402


@pytest.fixture(scope="module")
def shared_server():
    started = TroupeProcess("--max-num-seqs", 8)
    yield started
    started.stop()


@pytest.fixture
def server(shared_server):
    """The file's server, idle again after each test."""
    yield shared_server
    shared_server.close_connections()
    shared_server.wait_idle()


@pytest.fixture
def serve():
    """serve(options...) starts a server that is checked and stopped at the test's end."""
    started = []

    def start(*options, **arguments):
        started.append(TroupeProcess(*options, **arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            one.stop()
