"""--panel-cache: a server that starts from kept panels answers as one that repacks; a damaged file is named and replaced."""

import json
import os
import pathlib

import pytest

from troupe_process import default_model

PROMPT = "The river runs"


@pytest.fixture
def model(tmp_path):
    """The default model in a folder of its own, so that its panels go away with the test."""
    linked = tmp_path / "model.gguf"
    os.symlink(pathlib.Path(default_model).resolve(), linked)
    return linked


def panels(server, event):
    """The one line that says what became of the panels."""
    server.wait_for_line(server.errors, '"panel_cache_')
    told = [json.loads(line) for line in server.errors if '"panel_cache_' in line]
    assert [line["event"] for line in told] == [event]
    return told[0]


def answer(serve, model, event, *options, tokens=32):
    server = serve("--num-kv-blocks", 200, *options, model=str(model))
    told = panels(server, event) if event else None
    text = server.text(PROMPT, tokens)
    server.stop()
    return text, told


def test_a_start_from_kept_panels_answers_alike(serve, model):
    cache = model.with_name(model.name + ".panels")
    plain, _ = answer(serve, model, None)
    assert not cache.exists(), "the file is written only when it is asked for"
    first, told = answer(serve, model, "panel_cache_written", "--panel-cache")
    assert told["path"] == str(cache) and cache.exists()
    second, _ = answer(serve, model, "panel_cache_used", "--panel-cache")
    assert plain == first == second
    slower, _ = answer(serve, model, "panel_cache_used", "--panel-cache", "--isa", "portable", tokens=4)
    assert first.startswith(slower), "the panels are the same for every instruction set"


def test_a_damaged_file_of_panels_is_named_and_replaced(serve, model):
    cache = model.with_name(model.name + ".panels")
    right, _ = answer(serve, model, "panel_cache_written", "--panel-cache")
    with open(cache, "r+b") as file:
        file.seek(50_000_000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))
    text, told = answer(serve, model, "panel_cache_rebuilt", "--panel-cache")
    assert "damaged" in told["why"] and told["level"] == "warning"
    assert text == right
    text, _ = answer(serve, model, "panel_cache_used", "--panel-cache")
    assert text == right
