"""`troupe-bench serve` against a real server, `engine` and `policies`: that they count right, not how fast they are."""

import json
import os
import pathlib
import subprocess
import xml.etree.ElementTree

import pytest

from troupe_process import binary, default_model

bench = os.environ.get("TROUPE_BENCH", str(pathlib.Path(binary).parent / "troupe-bench"))


def run(*arguments, timeout_s=900, code=0):
    done = subprocess.run([bench, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def load(url, *options, code=0):
    """The JSON that a pipe gets."""
    return json.loads(run("serve", url, *options, code=code).stdout)


def is_sane(distribution, count):
    assert distribution["count"] == count
    assert 0 <= distribution["p50"] <= distribution["p95"] <= distribution["p99"] <= distribution["max"]
    assert 0 < distribution["mean"] <= distribution["max"]


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_closed_loop_counts_every_token_that_the_server_made(server, endpoint):
    before = server.value("troupe_generation_tokens_total")
    result = load(server.url, "--endpoint", endpoint, "--clients", 4, "--requests", 6, "--max-tokens", 8, "--prompt-words", "5:20")
    assert result["requests"] == {"sent": 6, "whole": 6, "slow_readers": 0, "cancelled": 0, "failed": 0}
    assert result["errors"] == {}
    assert result["output_tokens"] == 6 * 8
    server.wait_idle()
    # One more: the first request, which finds out what the server knows.
    assert server.value("troupe_generation_tokens_total") - before == 6 * 8 + 1
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        is_sane(result[name], 6)
    assert result["ttft_ms"]["p50"] <= result["e2e_ms"]["p50"]
    assert result["output_tokens_per_s"] == pytest.approx(48 / result["elapsed_s"], rel=0.01)
    assert result["requests_per_s"] == pytest.approx(6 / result["elapsed_s"], rel=0.01)
    assert 0 < result["own_cpu"]["seconds"] < result["elapsed_s"]


def test_requests_that_were_cancelled_are_counted_apart_and_are_no_errors(server):
    left = server.disconnects()
    result = load(server.url, "--clients", 4, "--requests", 12, "--max-tokens", "12:24", "--prompt-words", 8, "--cancel-share", 0.5,
                  "--seed", 3)
    assert result["max_tokens"] == [12, 24]
    counts = result["requests"]
    assert counts["failed"] == 0 and result["errors"] == {}
    assert 0 < counts["cancelled"] < 12
    assert counts["whole"] + counts["cancelled"] == 12
    is_sane(result["e2e_ms"], counts["whole"])
    # One that leaves at once may be gone before its request was read, one that leaves late may have been answered.
    server.wait_idle()
    assert 0 < server.disconnects() - left <= counts["cancelled"]


def test_an_open_loop_with_slow_readers_writes_json_words_and_a_plot(server, tmp_path):
    done = run("serve", server.url, "--rate", 20, "--requests", 8, "--max-tokens", 6, "--prompt-words", 8, "--slow-share", 0.4, "--slow-bytes-per-s", 4000,
               "--json", tmp_path / "load.json", "--plot", tmp_path / "load.svg", "--slo-ttft-ms", 60000, "--slo-tpot-ms", 0.0001)
    result = json.loads((tmp_path / "load.json").read_text())
    assert result["load"] == "open" and result["rate"] == 20
    counts = result["requests"]
    assert counts["slow_readers"] > 0 and counts["whole"] + counts["slow_readers"] == 8 and counts["failed"] == 0
    assert result["goodput"]["share"] == 0, "no server takes 100 ns a token"
    assert f"{counts['whole']} whole" in done.stdout and "goodput" in done.stdout
    picture = xml.etree.ElementTree.parse(tmp_path / "load.svg").getroot()
    curves = [element for element in picture.iter() if element.get("class") == "curve"]
    assert len(curves) == 4


def test_refused_requests_are_errors_by_their_status(server):
    result = load(server.url, "--clients", 2, "--requests", 4, "--max-tokens", 4, "--prompt-words", 20000, code=1)
    assert result["errors"] == {"http_400": 4}
    assert result["requests"]["failed"] == 4 and result["goodput"]["share"] == 0


def test_a_wrong_url_and_a_dead_server_are_told_in_one_line():
    for url, part in (("ftp://127.0.0.1", "only http"), ("http://127.0.0.1:1", "refused"), ("http://:80", "no host")):
        lines = run("serve", url, code=1).stderr.splitlines()
        assert len(lines) == 1 and part in lines[0], lines
    for option in ("--prompt-words", "--max-tokens"):
        line = run("serve", "http://127.0.0.1:1", option, "9:x", code=1).stderr
        assert option in line and "LOW:HIGH" in line


def test_policies_prints_every_table():
    result = json.loads(run("policies", default_model, "--quick", "--json").stdout)
    assert all(table["seconds"] >= 0 for table in result["tables"].values())
    rows = {name: [row["policy"] for row in table["rows"]] for name, table in result["tables"].items()}
    assert rows == {
        "batching": ["serial", "fixed batch of 4", "continuous, up to 4", "continuous, up to 8"],
        "kv_cache": ["KV cache, prompt of 32", "full recompute, prompt of 32"],
        "mixing": ["mixed, prompts in chunks", "apart, prompts in chunks", "mixed, whole prompts", "apart, whole prompts"],
        "window": [f"{how}, window of {ms} ms" for how in ("continuous", "whole batches") for ms in (0, 10, 50)],
        "buckets": ["in order of arrival", "buckets by length", "continuous, up to 4"],
    }
    for table in result["tables"].values():
        for row in table["rows"]:
            assert all(figure > 0 for name, figure in row.items() if name != "policy"), row
    assert result["tables"]["batching"]["rows"][0]["rows_per_step"] == 1
    assert all(1 < row["rows_per_step"] <= 4 for row in result["tables"]["buckets"]["rows"])
    assert result["command"].endswith("--quick --json") and result["machine"] and result["build"]
    words = run("policies", default_model, "--quick", "--table", "kv_cache").stdout
    assert "full recompute, prompt of 32" in words and "batching:" not in words


def test_engine_tells_the_rates_of_the_runtime_and_of_the_device_apart():
    result = json.loads(run("engine", default_model, "--json", "--streams", "2,1", "--runs", 1, "--context", 64, "--beside-device").stdout)
    alone = result["device_alone"]
    for rates in (result, alone):
        assert rates["prefill_512_tokens_per_s"] > 0
        assert list(rates["decode_tokens_per_s"]) == ["2", "1"] and all(rate > 0 for rate in rates["decode_tokens_per_s"].values())
        context = rates["context"]
        assert (context["tokens"], context["sequences"]) == (64, 8) and context["decode_tokens_per_s"] > 0
        # 2 x 30 layers x 3 heads x 64 x 2 bytes a token; sequences are between the prompt's length and what is decoded behind it.
        per_token = context["kv_gb_per_s"] * 1e9 / context["decode_tokens_per_s"]
        assert 64 * 23040 < per_token < (64 + 16 + 32 + 16) * 23040
    assert result["command"].endswith("--beside-device") and result["machine"] and result["build"]


def test_engine_refuses_a_context_that_the_model_does_not_have():
    assert "8192" in run("engine", default_model, "--streams", 1, "--context", 8192, code=1).stderr


def test_kv_tells_quality_bytes_and_rates_of_each_type_beside_the_first():
    text = __file__
    result = json.loads(run("kv", default_model, "--json", "--types", "f16,int8,int8/int4", "--text", text,
                            "--tokens", 48, "--context", 64, "--runs", 1).stdout)
    first, int8, mixed = result["types"]
    assert [row["name"] for row in result["types"]] == ["f16", "int8", "int8/int4"]
    assert [row["kv_bytes_per_token"] for row in result["types"]] == [30 * 3 * of for of in (256, 136, 104)]
    assert (first["kl"], first["top1"], first["many_ratio"], first["one_ratio"]) == (0, 1, 1, 1)
    assert 0 < int8["kl"] < mixed["kl"] < 1 and all(0 < row["loss"] < 20 for row in result["types"])
    assert all(row["many_tokens_per_s"] > 0 and row["one_tokens_per_s"] > 0 for row in result["types"])
    assert "--kv-cache-dtype-v: \"q4\" is not one of" in run("kv", default_model, "--types", "int8/q4", code=1).stderr
