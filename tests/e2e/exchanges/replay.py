"""Runs exchanges against servers of the product, each started once, and reads and writes the record."""

import os
import pathlib
import re

from exchanges.cases import CASES, SERVERS
from exchanges.transcript import Transcript
from troupe_process import TroupeProcess

record_path = pathlib.Path(__file__).resolve().parents[2] / "data/exchanges.txt"
# Texts are equal with all kernels, log-probabilities nearly; the portable kernels take a minute longer.
has_avx2 = " avx2 " in pathlib.Path("/proc/cpuinfo").read_text()
isa = os.environ.get("EXCHANGES_ISA", "avx2" if has_avx2 else "portable")


class Replay:
    """The servers of the exchanges, started when first asked for; all end with the promise checked."""

    def __init__(self):
        self.running = {}

    def __enter__(self):
        return self

    def run(self, name):
        server, steps = CASES[name]
        if server not in self.running:
            self.running[server] = TroupeProcess("--isa", isa, *SERVERS[server])
        script = Transcript()
        steps(script, self.running[server])
        return script.text(), script.logprobs

    def __exit__(self, *failure):
        if failure[0]:
            for process in self.running.values():
                process.kill()
            return
        for process in self.running.values():
            if process.process.returncode is None:
                process.stop()


def read_record():
    """name -> (text, log-probabilities)"""
    found = {}
    for part in re.split(r"(?m)^######## ", record_path.read_text())[1:]:
        name, text = part.split("\n", 1)
        text, _, numbers = text.partition("########-logprobs:")
        found[name] = (text, [float(number) for number in numbers.split()])
    return found


def write_record(exchanges):
    parts = []
    for name, (text, logprobs) in exchanges.items():
        numbers = "".join(f" {value:.3f}" for value in logprobs)
        parts.append(f"######## {name}\n{text}" + (f"########-logprobs:{numbers}\n" if numbers else ""))
    record_path.write_text("".join(parts))
