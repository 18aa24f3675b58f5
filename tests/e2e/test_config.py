"""Settings from file, environment and options, and the commands that answer without serving."""

import json
import os
import pathlib
import pty
import subprocess

import pytest

from troupe_process import binary, default_model, root

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}


def troupe(*arguments, **environment):
    """(exit code, stdout, stderr) of one command; `environment` adds variables to one without ours."""
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**CLEAN, **environment})
    return done.returncode, done.stdout, done.stderr


def on_terminal(*arguments):
    """What the command prints when its standard output is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([binary, *map(str, arguments)], stdout=theirs, env=CLEAN) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # the terminal's other end is closed
            pass
        os.close(ours)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n")


def problems(*arguments, **environment):
    code, out, errors = troupe("serve", "--check-config", *arguments, **environment)
    assert code == 2 and out == "", (code, out, errors)
    return errors.splitlines()


def write(folder, text, name="troupe.toml"):
    path = folder / name
    path.write_text(text)
    return path


def setting(toml, key):
    """The line of a key in what --print-config prints."""
    (line,) = [line for line in toml.splitlines() if line.startswith(key + " = ")]
    return line


def test_the_shipped_files_are_sound_and_default_toml_is_what_is_printed():
    for name in ("default", "tiny", "chaos"):
        code, out, errors = troupe("serve", "--check-config", "--config", root / f"config/{name}.toml")
        assert (code, errors) == (0, ""), name
        assert out.startswith("the configuration is sound: ")
    assert troupe("serve", "--print-config")[1] == (root / "config/default.toml").read_text()


def test_option_wins_over_environment_over_file_over_default(tmp_path):
    file = write(tmp_path, "port = 1\nmax-n = 2\nmax-num-seqs = 3\n")
    code, out, _ = troupe("serve", "--print-config", "--config", file, "--parallel", 7,
                          TROUPE_MAX_N="5", TROUPE_MAX_NUM_SEQS="6")
    assert code == 0
    assert setting(out, "port").startswith("port = 1 ") and f"[file {file}:1]" in setting(out, "port")
    assert setting(out, "max-n").startswith("max-n = 5 ") and "[environment TROUPE_MAX_N]" in setting(out, "max-n")
    assert "= 7 " in setting(out, "max-num-seqs") and "[option --parallel]" in setting(out, "max-num-seqs")
    assert "[default]" in setting(out, "host")


def test_the_printed_configuration_reads_back(tmp_path):
    _, first, _ = troupe("serve", "m.gguf", "--print-config", "--kv-offloading-size", "0.5", "--queue-timeout", "0.1",
                         "--no-enable-prefix-caching", "--allowed-origins", "http://a,http://b", "--num-kv-blocks", 9)
    code, second, errors = troupe("serve", "--print-config", "--config", write(tmp_path, first))
    assert code == 0, errors
    values = [[line.split("#")[0].strip() for line in text.splitlines() if " = " in line.split("#")[0]]
              for text in (first, second)]
    assert values[0] == values[1] and len(values[0]) > 40
    assert 'kv-offloading-size = "512MiB"' in values[1] and "queue-timeout = 0.1" in values[1]


def test_keys_are_never_printed_and_the_stars_are_refused(tmp_path):
    code, out, errors = troupe("serve", "--print-config", "--api-key", "first-secret", TROUPE_API_KEY="second-secret")
    assert code == 0 and "secret" not in out + errors and 'api-key = ["***"]' in out
    assert problems("--config", write(tmp_path, out)) == [
        "troupe: --api-key: '***' stands for a key that was not printed; give the key itself"]
    assert "secret" not in "".join(problems("--port", "x", "--api-key", "secret", TROUPE_API_KEY="secret,"))


def test_all_problems_of_all_sources_come_at_once_each_with_its_source(tmp_path):
    file = write(tmp_path, "port = 99999\nmax-num-seq = 4\nhost = 5\n")
    assert problems("--config", file, "--max-n", "0", "--prot", "1", TROUPE_PORT="abc", TROUPE_MAX_NUM_SEQ="3") == [
        "troupe: --prot: unknown option; did you mean --port?",
        f"troupe: {file}:1: port: 99999 is outside 0..65535",
        f"troupe: {file}:2: max-num-seq: unknown key; did you mean max-num-seqs?",
        f"troupe: {file}:3: host: 5 is not a string",
        "troupe: TROUPE_PORT: 'abc' is not a whole number, 0..65535",
        "troupe: TROUPE_MAX_NUM_SEQ: unknown variable; did you mean TROUPE_MAX_NUM_SEQS?",
        "troupe: --max-n: 0 is outside 1..4096"]


@pytest.mark.parametrize("text, line, part", [
    ('port = "8000"\n', 1, 'port: the string "8000" is not a whole number, 0..65535'),
    ("\nport = 80.5\n", 2, "port: 80.5 is not a whole number, 0..65535"),
    ("port = -1\n", 1, "port: -1 is outside 0..65535"),
    ("queue-timeout = nan\n", 1, "queue-timeout: nan is not a number, 0..1000000"),
    ("queue-timeout = inf\n", 1, "queue-timeout: inf is outside 0..1000000"),
    ("queue-timeout = 1e400\n", 1, "1e400"),
    ("port = 1\nport = 2\n", 2, "cannot redefine"),
    ('host = "127.0', 1, ""),
    ("api-key = [1, 2]\n", 1, "api-key: a list of other things than strings is not a list of strings"),
    ("port = 1979-05-27\n", 1, "port: a date or time is not a whole number, 0..65535"),
    ("[network]\nport = 1\n", 1, "[network]: a table; the keys are flat, without sections"),
    ("ctx-size = 5\n", 1, "ctx-size: unknown key; its name here is max-model-len"),
])
def test_a_wrong_file_is_one_line_with_file_and_line(tmp_path, text, line, part):
    file = write(tmp_path, text)
    (problem,) = problems("--config", file)
    assert problem.startswith(f"troupe: {file}:{line}: ") and part in problem


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    assert problems("--config", tmp_path / "absent.toml") == [
        f"troupe: --config: {tmp_path}/absent.toml: No such file or directory"]
    assert problems("--config", tmp_path) == [f"troupe: --config: {tmp_path}: is a directory"]
    huge = write(tmp_path, "# " + "x" * (1 << 20))
    assert problems("--config", huge) == [f"troupe: --config: {huge}: is larger than 1 MiB"]
    assert problems("--config", "/dev/zero") == ["troupe: --config: /dev/zero: is larger than 1 MiB"]


def test_a_file_configures_a_real_server_and_the_ports_of_options_still_win(serve, tmp_path):
    file = write(tmp_path, "num-kv-blocks = 40\nmax-num-seqs = 3\nport = 1\n")
    server = serve("--config", file)
    start = json.loads(server.events[0])
    assert (start["num_kv_blocks"], start["max_num_seqs"]) == (40, 3)
    assert server.ready["port"] != 1


def test_a_context_beyond_the_models_is_a_warning_and_the_limit_in_force_is_shown_c217(serve):
    server = serve("--ctx-size", 16384)
    start = json.loads(server.events[0])
    assert start["trained_context"] == start["effective_context"] == 8192
    server.wait_for_line(server.errors, "context_beyond_the_model")
    warnings = [json.loads(line) for line in server.errors if "context_beyond_the_model" in line]
    assert len(warnings) == 1 and "16384" in warnings[0]["why"] and "8192 are in force" in warnings[0]["why"]
    assert "8192" in json.dumps(server.call("/v1/models")[1])
    status, reply = server.call("/v1/completions", {"prompt": "a " * 9000, "max_tokens": 1})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded"
    assert "8192" in reply["error"]["message"]


def test_a_pool_that_was_asked_for_and_does_not_fit_is_refused_with_both_sums():
    code, _, errors = troupe("serve", default_model, "--port", 0, "--kv-cache-memory", "16TiB")
    (line,) = errors.splitlines()
    assert code == 2 and line.startswith("troupe: --kv-cache-memory: ") and "this process may use" in line


def test_estimate_answers_from_a_file_and_from_dimensions():
    code, out, _ = troupe("estimate", default_model)
    answer = json.loads(out)
    assert code == 0 and answer["kv_bytes_per_token"] == 23040 and answer["kv_bytes_per_sequence"] == 180 << 20
    code, out, _ = troupe("estimate", "--layers", 32, "--width", 4096, "--heads", 32)
    assert code == 0 and json.loads(out)["kv_bytes_per_token"] == 512 << 10
    assert "kv a token  22.5 KiB = 2 x 30 layers x 3 kv heads x 64 head dim x 2 bytes" in on_terminal("estimate", default_model)
    code, out, errors = troupe("estimate", "--layers", "many", "--width", 4096, "--heads", 32)
    assert (code, out, errors) == (2, "", "troupe: --layers: 'many' is not a whole number, 1..1024\n")


def test_inspect_describes_the_model_and_refuses_what_is_no_model(tmp_path):
    code, out, _ = troupe("inspect", default_model)
    answer = json.loads(out)
    assert code == 0 and answer["supported"] and answer["tensor_count"] == len(answer["tensors"]) == 272
    assert answer["types"]["Q4_1"]["tensors"] == 210 and answer["chat_template"]["compiles"]
    assert "supported: troupe serve can load this file\n" in on_terminal("inspect", default_model)
    code, out, errors = troupe("inspect", write(tmp_path, "no model, but more than twenty-four bytes\n"))
    assert (code, out, len(errors.splitlines())) == (2, "", 1)


def test_the_reference_in_the_readme_is_what_the_program_prints():
    printed = troupe("config-reference")[1]
    assert printed.count("| `--") > 50
    assert printed in pathlib.Path(root / "config/README.md").read_text()


def test_F011_an_origin_pattern_that_no_page_can_match_is_refused():
    assert problems("m.gguf", "--allowed-origins", "localhost,http://a/,app://*,http://localhost:*") == [
        "troupe: --allowed-origins: 'localhost' matches no page: an origin is scheme://host or scheme://host:port, as in "
        "http://localhost:3000; 'null' and '*' stand alone",
        "troupe: --allowed-origins: 'http://a/' matches no page: an origin has no path; write http://a"]
