"""Start and end of the process: ready line, one-line errors with exit code 2, drain and stop by signal."""

import json
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from troupe_process import RUNNING, TroupeProcess, binary, default_model
from wire_client import Http


def run_serve(*arguments):
    """For starts that must fail: (exit code, stderr lines)."""
    done = subprocess.run([binary, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr.strip().splitlines()


def assert_one_line(result, *parts):
    code, lines = result
    assert code == 2, result
    assert len(lines) == 1, result
    for part in parts:
        assert part in lines[0], result


def test_D13_the_ready_line_is_one_json_object_however_busy_the_machine_is(serve):
    server = serve()
    assert server.ready["url"].startswith("http://127.0.0.1:")
    for line in server.events:
        assert isinstance(json.loads(line), dict)
    assert server.call("/health")[0] == server.call("/ready")[0] == 200


def test_a_port_in_use_is_one_line_with_exit_code_2():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_one_line(run_serve(default_model, "--port", port), str(port))


def test_an_unknown_option_names_the_nearest_known_one():
    code, lines = run_serve(default_model, "--max-num-seq", 4)
    assert code == 2
    assert "--max-num-seq" in lines[0] and "--max-num-seqs" in " ".join(lines)


def test_a_value_out_of_range_names_option_value_and_range():
    code, lines = run_serve(default_model, "--block-size", 17)
    assert code == 2
    assert "block-size" in " ".join(lines) and "17" in " ".join(lines) and "32" in " ".join(lines)


def test_a_missing_model_file_is_one_line_with_exit_code_2(tmp_path):
    assert_one_line(run_serve(tmp_path / "absent.gguf"), "absent.gguf")


@pytest.mark.parametrize("kept", [0, 3, 100, 5000, 3_000_000, -1])
def test_a_cut_model_file_is_one_line_with_exit_code_2(tmp_path, kept):
    cut = tmp_path / "cut.gguf"
    with open(default_model, "rb") as whole:
        cut.write_bytes(whole.read() if kept < 0 else whole.read(kept))
    if kept < 0:
        with open(cut, "r+b") as file:
            file.truncate(pathlib.Path(cut).stat().st_size - 1)
    assert_one_line(run_serve(cut), "cut.gguf")


def test_sigterm_lets_a_stream_finish_and_refuses_new_requests():
    server = TroupeProcess("--shutdown-timeout", 3600)
    kept_open = Http(server.url)
    assert kept_open.call("GET", "/ready")[0] == 200
    with server.begin("sse", "A story:", 150) as http:
        assert http.read_head() == 200
        events = http.events()
        next(events)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_line(server.errors, "draining")
        try:
            with Http(server.url) as late:
                status, reply = late.call("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})
            assert status == 503 and reply["error"]["code"] == "server_shutting_down"
        except (OSError, EOFError):
            pass  # not accepted any more: as good
        text = [event for event in events]
        assert text[-1] == "[DONE]"
        finished = [e["choices"][0]["finish_reason"] for e in text[:-1] if e["choices"]]
        assert finished[-1] == "length"
    assert server.wait_exit() == 0
    assert server.error_lines() == []
    kept_open.close()


def test_the_drain_ends_at_its_timeout_and_says_so_to_the_stream():
    server = TroupeProcess("--shutdown-timeout", 1)
    with server.begin("sse", "A story:", 7000) as http:
        assert http.read_head() == 200
        events = http.events()
        next(events)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        rest = []
        try:
            rest = list(events)
        except (OSError, EOFError):
            pass
        assert server.wait_exit() == 0
        assert time.monotonic() - started > 0.8
        assert any(isinstance(e, dict) and "error" in e for e in rest), rest[-2:]


def test_a_second_sigterm_stops_at_once():
    server = TroupeProcess("--shutdown-timeout", 3600)
    with server.begin("sse", "A story:", 7000) as http:
        assert http.read_head() == 200
        next(http.events())
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None, "the drain did not wait for the stream"
        server.process.send_signal(signal.SIGTERM)
        server.wait_exit()


def start_with_hangup(handler, *options):
    """A server started with that disposition of SIGHUP, whatever this process was started with: nohup leaves it ignored."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        return TroupeProcess(*options)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hangup_drains_like_sigterm():
    server = start_with_hangup(signal.SIG_DFL, "--shutdown-timeout", 3600)
    with server.begin("sse", "A story:", 60) as http:
        assert http.read_head() == 200
        events = http.events()
        next(events)
        server.process.send_signal(signal.SIGHUP)
        assert list(events)[-1] == "[DONE]"
    assert server.wait_exit() == 0


def test_a_hangup_is_ignored_under_nohup():
    server = start_with_hangup(signal.SIG_IGN)
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert server.process.poll() is None
    assert server.call("/ready")[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_exit() == 0


def test_an_idle_server_uses_no_cpu(serve):
    server = serve()
    server.text("Hello", 8)
    server.wait_idle()
    time.sleep(0.5)

    def cpu_s():
        fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    before, seconds = cpu_s(), 3
    time.sleep(seconds)
    assert (cpu_s() - before) / seconds < 0.01 + 0.01 / seconds  # a tick of the clock is 10 ms
    assert server.value(RUNNING) == 0


def test_resident_memory_is_file_weights_pool_and_at_most_150_mib_more(serve):
    server = serve("--num-kv-blocks", 1000)
    for i in range(3):
        server.text(f"Hello {i}", 32)
    (starting,) = [event for event in map(json.loads, server.events) if event.get("event") == "starting"]
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    (resident_kib,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")]
    allowed = starting["file_bytes"] + starting["weight_bytes"] + starting["pool_bytes"] + (150 << 20)
    print(f"ready in {server.ready['seconds']:.2f} s; resident {resident_kib / 1024:.0f} MiB of {allowed / 2**20:.0f} allowed")
    assert resident_kib * 1024 <= allowed
    assert resident_kib * 1024 >= starting["pool_bytes"], "the pool was not touched at start"
