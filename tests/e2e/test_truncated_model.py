"""A model file that is truncated while it is served: the mapping was given up at the start, so nothing notices."""

import os
import pathlib
import shutil

from troupe_process import default_model

PROMPT = "The river runs"


def mappings_of(pid, path):
    return [line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if str(path) in line]


def test_a_served_model_that_is_truncated_answers_alike(serve, tmp_path):
    model = tmp_path / "model.gguf"
    shutil.copyfile(default_model, model)
    server = serve("--num-kv-blocks", 200, model=str(model))
    assert mappings_of(server.process.pid, model) == []
    before = server.text(PROMPT, 32)
    os.truncate(model, 0)
    assert server.text(PROMPT, 32) == before
    # Words that no earlier request brought into the prefix cache: every token's row is looked up anew.
    status, reply = server.call("/tokenize", {"prompt": "Zebras quietly paint 42 violins"})
    assert status == 200 and reply["count"] > 5
    assert len(server.text("Zebras quietly paint 42 violins", 8)) > 0
    server.stop()
