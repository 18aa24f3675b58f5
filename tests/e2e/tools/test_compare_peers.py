"""`tools/compare_peers` on stand-ins for all binaries: its rows, its floors, and that an interrupted run goes on."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import peer_report
import pytest

script = pathlib.Path(__file__).resolve().parents[3] / "tools/compare_peers"

# Each notes that it ran and prints figures that only depend on its arguments.
STAND_IN = """#!{python}
import json, pathlib, sys, time
name, words, here = pathlib.Path(sys.argv[0]).name, sys.argv[1:], pathlib.Path(sys.argv[0]).parent
with (here / "calls").open("a") as calls:
    calls.write(name + " " + " ".join(words) + chr(10))
option = lambda o: words[words.index(o) + 1]
if (here / "slow").exists():
    time.sleep(60)
if name == "troupe-bench":
    out = {{"build": "troupe 9", "prefill_512_tokens_per_s": 500.0,
            "decode_tokens_per_s": {{n: 100.0 * int(n) for n in option("--streams").split(",")}}}}
    if "--context" in words:
        out["context"] = {{"decode_tokens_per_s": 90.0, "kv_gb_per_s": 8.0}}
    print(json.dumps(out))
elif name == "troupe":
    print(json.dumps({{"kv_bytes_per_token": 1000000}}))
elif name == "llama-bench":
    print(json.dumps([{{"n_gen": 0, "avg_ts": 100.0, "build_commit": "abc"}}, {{"n_gen": 8, "avg_ts": 60.0, "build_commit": "abc"}}]))
elif name == "llama-batched-bench":
    for n in option("-npl").split(","):
        print("|    64 |     8 |  " + n + " |  1 | 1.0 | 1.0 | 1.0 | " + str(50.0 * int(n)) + " | 1.0 | 1.0 |")
elif name == "llama-quantize":
    pathlib.Path(words[2]).write_text("weights")
"""


class Stage:
    def __init__(self, folder):
        self.folder = folder
        for name in ("troupe", "troupe-bench", "llama-bench", "llama-batched-bench", "llama-quantize"):
            path = folder / name
            path.write_text(STAND_IN.format(python=sys.executable))
            path.chmod(0o755)
        (folder / "model.gguf").write_text("weights")

    def command(self, *options):
        return [sys.executable, script, "--peer-bin", self.folder, "--our-bin", self.folder, "--model", self.folder / "model.gguf",
                "--cache", self.folder / "cache", "--output", self.folder / "out.json", *map(str, options)]

    def run(self, *options):
        done = subprocess.run(self.command(*options), capture_output=True, text=True, timeout=300)
        assert done.stdout, done.stderr
        return done

    def calls(self, name):
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if line.split()[0] == name] if path.exists() else []


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def test_ratios_floors_and_both_files_of_the_favoured_format(stage):
    facts = json.loads(stage.run("--quick", "--part", "engine", "--part", "q4_0", "--part", "context").stdout)
    rows = {(row["part"], row["measure"]): row for row in facts["rows"]}
    for part in ("engine", "q4_0", "both_q4_0"):
        assert rows[part, "prefill_512"]["ratio"] == 5
        # The better of the peer's two ways, 60 and 50.
        assert rows[part, "decode_1"]["peer"] == 60
        assert rows[part, "decode_8"]["ratio"] == 2
    assert rows["engine", "prefill_512"]["held"] and not rows["engine", "decode_8"]["held"]
    assert rows["engine", "decode_8"]["floor"] == 4.3 and rows["q4_0", "decode_8"]["floor"] == 3
    assert rows["context", "context_tokens_per_s"]["ours"] == 90
    assert rows["context", "context_kv_gb_per_s"]["peer"] == pytest.approx(400 * 264e6 / 1e9)
    # One engine run of ours for both parts, one more on the made file; the file is made once and kept.
    assert len(stage.calls("llama-quantize")) == 1 and len(stage.calls("troupe-bench")) == 3
    made = [line for line in stage.calls("troupe-bench") if ".q4_0.gguf" in line]
    assert len(made) == 1
    assert facts["rounds_done"] == 1 and facts["peer"] == "abc" and facts["ours"] == "troupe 9"


def test_an_interrupted_run_keeps_its_figures_and_goes_on(stage):
    options = ("--part", "engine", "--rounds", 2)
    (stage.folder / "slow").write_text("")
    process = subprocess.Popen(stage.command(*options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not stage.calls("troupe-bench") and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 1 and "interrupted" in told
    (stage.folder / "slow").unlink()

    stage.run("--part", "engine", "--rounds", 1)
    one_round = len(stage.calls("llama-bench"))
    facts = json.loads(stage.run(*options, "--resume").stdout)
    assert len(stage.calls("llama-bench")) == one_round + 1
    assert facts["rounds_done"] == 2 and len(facts["turns"]) == 4
    assert [turn["whose"] for turn in facts["turns"]] == ["ours", "peer", "peer", "ours"], "the order changes by round"


def test_figures_of_another_binary_are_not_continued(stage):
    stage.run("--quick", "--part", "engine")
    os.utime(stage.folder / "troupe-bench", (1, 1))
    done = subprocess.run(stage.command("--quick", "--part", "engine", "--resume"), capture_output=True, text=True)
    assert done.returncode == 1 and "--resume: ours was" in done.stderr


def test_markdown_has_a_line_for_every_row_with_range_and_floor(stage):
    text = stage.run("--quick", "--part", "engine", "--markdown").stdout
    assert "| decode, 8 streams | 800 | 400 | 2.00 (2.00 to 2.00) | >= 4.3: MISSED |" in text
    assert "| prefill of 512 tokens | 500 | 100 | 5.00 (5.00 to 5.00) | >= 4.5: held |" in text
    assert "llama-batched-bench -m" in text and "QUICK" in text


def turn(number, part, whose, **figures):
    return {"round": number, "part": part, "whose": whose, "figures": figures}


def test_a_ratio_is_the_median_of_the_rounds_that_both_have():
    turns = [turn(n, "server", "ours", server_ttft_p50_ms=10 * n) for n in (1, 2, 3, 4)]
    turns += [turn(n, "server", "peer", server_ttft_p50_ms=100) for n in (1, 2, 3)]
    turns += [turn(1, "busy", "ours", busy_core_kept_share=0.5), turn(1, "busy", "peer", busy_core_kept_share=0.1)]
    latency, busy = peer_report.rows_of(turns)
    assert (latency["rounds"], latency["ratio"], latency["ratio_min"], latency["ratio_max"]) == (3, 0.2, 0.1, 0.3)
    assert latency["held"] and latency["better"] == "less"
    assert busy["held"] and busy["floor"] == 0.45 and busy["ours"] == 0.5
