"""Starts in odd surroundings: limits on threads and stacks, foreign variables, closed streams, addresses of every shape."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from troupe_process import TroupeProcess, binary, default_model

NOBODY = 65534


def test_F003_a_limit_on_threads_is_named_and_ends_the_start_at_once(tmp_path):
    if os.geteuid() == 0:
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    else:
        pytest.skip("needs root: the limit counts every thread of a user, and only root can become one without any")
    model = tmp_path / "model.gguf"
    shutil.copy(default_model, model)
    program = tmp_path / "troupe"
    shutil.copy(binary, program)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != pathlib.Path("/tmp") and "pytest" in str(folder):
            folder.chmod(0o755)
    served = []
    for limit in range(1, 15):
        process = subprocess.Popen(
            [*become, "prlimit", f"--nproc={limit}", program, "serve", model, "--port", "0", "--json",
             "--threads", "2", "--max-model-len", "512", "--num-kv-blocks", "64", "--log-level", "error"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ready = '"ready"' in process.stdout.readline() + process.stdout.readline()
        if ready:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        if ready:
            served.append(limit)
            assert process.returncode == 0, errors
        else:
            assert process.returncode == 2, (limit, errors)
            (line,) = errors.strip().splitlines()
            assert "threads are needed" in line and f"RLIMIT_NPROC (ulimit -u) is {limit} " in line, line
    assert served and served == list(range(served[0], 15)), served


@pytest.mark.parametrize("kib", [128, 256, 512])
def test_F023_a_small_stack_limit_generates_like_a_large_one(serve, kib):
    limited = serve(launcher=["prlimit", f"--stack={kib * 1024}"])
    assert limited.text("a", 2)
    assert limited.text("Once upon a time " * 40, 8)
    status, _ = limited.call("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "logprobs": True, "top_logprobs": 3})
    assert status == 200


def test_F003_sigterm_ends_a_process_that_has_not_started_yet(tmp_path):
    pipe = tmp_path / "prompts"
    os.mkfifo(pipe)
    process = subprocess.Popen([binary, "serve", default_model, "--port", "0", "--num-kv-blocks", "64", "--prewarm", pipe],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Opening it to write returns when the server has opened it to read: all threads run, and it waits for a byte.
    with open(pipe, "wb"):
        process.send_signal(signal.SIGTERM)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "ready" not in printed


SERVICE = {"TROUPE_PORT": "tcp://10.43.7.9:8000", "TROUPE_SERVICE_HOST": "10.43.7.9", "TROUPE_SERVICE_PORT": "8000",
           "TROUPE_PORT_8000_TCP": "tcp://10.43.7.9:8000", "TROUPE_PORT_8000_TCP_PROTO": "tcp",
           "TROUPE_PORT_8000_TCP_PORT": "8000", "TROUPE_PORT_8000_TCP_ADDR": "10.43.7.9"}


def test_F001_a_kubernetes_service_of_the_same_name_costs_one_warning(serve):
    server = serve(launcher=["env", *(f"{name}={value}" for name, value in SERVICE.items())])
    line = json.loads(server.wait_for_line(server.errors, "setting_ignored"))
    assert line["level"] == "warning" and "Kubernetes" in line["why"] and "enableServiceLinks: false" in line["why"]
    assert sum("setting_ignored" in line for line in server.errors) == 1
    assert server.call("/health")[0] == 200


@pytest.mark.parametrize("host, printed", [("0.0.0.0", "http://127.0.0.1:"), ("[::1]", "http://[::1]:"), ("::", "http://[::1]:")])
def test_D1_D7_the_printed_address_can_be_opened(serve, host, printed):
    if ":" in host and not pathlib.Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    server = serve("--host", host)
    assert server.url.startswith(printed)
    done = subprocess.run(["curl", "-sg", "-o", os.devnull, "-w", "%{http_code}", server.url + "/health"],
                          capture_output=True, text=True, timeout=30)
    assert done.stdout == "200", done


@pytest.mark.parametrize("host", ["*", "http://127.0.0.1", "127.0.0.1:80", "[::1"])
def test_D1_D7_what_is_no_host_is_refused_in_words(host):
    done = subprocess.run([binary, "serve", default_model, "--host", host], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("troupe: --host: ") and f"'{host}'" in line


def test_D8_closed_standard_streams_become_dev_null():
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", binary, "serve", default_model, "--port", "0",
                                "--num-kv-blocks", "64"])
    try:
        folder = pathlib.Path(f"/proc/{process.pid}/fd")
        until = time.monotonic() + 60
        while not any("socket:" in target for target in targets(folder)):  # it listens: everything is open
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        assert [os.readlink(folder / name) for name in "012"] == ["/dev/null"] * 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()


def targets(folder):
    found = []
    for entry in folder.iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            pass  # closed meanwhile
    return found
