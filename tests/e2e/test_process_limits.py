"""Starts under limits of the system: threads, stacks. Each ends by name or serves, and SIGTERM ends it in any state."""

import os
import pathlib
import shutil
import signal
import subprocess

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
