#!/usr/bin/env python3
"""Runs the tests against every planted fault and fails when one that should be found is not.

    run.py --build FOLDER                 all mutants; the table goes to FOLDER/mutants.md and mutants.json
    run.py --build FOLDER --only NUMBER   one of them, with what the tests say
    run.py --build FOLDER --list          numbers and names

Killers (killers.toml) are commands, the cheapest first; a mutant is killed by the first that fails, crashes or needs far
more time than without it. Survivors must be argued in survivors.md. Exit code 1: see README.md, "What fails".
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatch

HERE = pathlib.Path(__file__).parent
KILL_RATE = 0.95
MEMORY = 2 << 30


@dataclass
class Killer:
    name: str
    command: list
    files: tuple          # patterns: only for mutants of these files; empty: for all
    control_s: float = 0  # processor time without a fault

    def limit_s(self):
        """Twenty times what it needs without a fault, but for the long ones no more than is sure to be too much."""
        return max(2, min(20 * self.control_s, 5 + 3 * self.control_s))


def killers_of(build):
    found = []
    for entry in tomllib.loads((HERE / "killers.toml").read_text())["killer"]:
        binary = build / "bin" / entry["binary"]
        if not binary.exists() and entry.get("optional"):
            continue
        found.append(Killer(entry["name"], [str(binary), *entry["arguments"]], tuple(entry.get("files", []))))
    return found


def run(killer, number, limit_s):
    """Exit code, processor seconds and output of the command with the mutant switched on."""
    def bounded():
        seconds = int(limit_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    process = subprocess.Popen(killer.command, env=os.environ | {"TROUPE_MUTANT": str(number)}, preexec_fn=bounded,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, output


def verdict_of(code, output):
    """How the command noticed, in words: the test's name where it tells one."""
    case = re.search(r"^-{79}\n(.+?)\n-{79}$", output, re.M | re.S)
    name = " ".join(case[1].split("\n")[0].split()) if case else ""
    if "SIGXCPU" in output or code in (-24, -9):
        return "time-out"
    if "fatal error condition" in output or code < 0:
        return f"crash: {name}" if name else "crash"
    return name or "failed"


def kill(mutant, killers):
    spent = 0.0
    for killer in killers:
        if killer.files and not any(fnmatch(mutant["file"], pattern) for pattern in killer.files):
            continue
        code, seconds, output = run(killer, mutant["number"], killer.limit_s())
        spent += seconds
        if code != 0:
            return mutant | {"killed_by": killer.name, "how": verdict_of(code, output), "seconds": round(spent, 2)}
    return mutant | {"killed_by": None, "how": "survived", "seconds": round(spent, 2)}


def argued():
    """survivors.md as key -> reason: a heading for each function, in it the mutants, a reason behind each or several."""
    reasons, place, waiting = {}, "", []
    for line in (HERE / "survivors.md").read_text().splitlines():
        if line.startswith("## "):
            place, waiting = line[3:].strip(), []
        elif m := re.match(r"- ``(.+)`` \| (.+)$", line):
            if waiting and reasons[waiting[0]]:
                waiting = []
            waiting.append(f"{place} | {m[1]} | {m[2]}")
            reasons[waiting[-1]] = ""
        elif line.startswith("  ") and line.strip():
            for key in waiting:
                reasons[key] += line.strip() + " "
    return reasons


def control(killers):
    """Without a fault everything must pass; the times are the measure for the others."""
    for killer in killers:
        code, killer.control_s, output = run(killer, 0, 600)
        print(f"control: {killer.name}: {killer.control_s:.2f} s", flush=True)
        if code != 0:
            sys.exit(f"{output[-4000:]}\nrun.py: {killer.name} fails without any fault")


def run_all(mutants, killers, jobs, started):
    done = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(kill, m, killers) for m in mutants]):
            done.append(future.result())
            if not done[-1]["killed_by"]:
                print(f"survived: {name_of(done[-1])}", flush=True)
            if len(done) % 100 == 0 or len(done) == len(mutants):
                killed = sum(bool(m["killed_by"]) for m in done)
                print(f"{len(done)} of {len(mutants)}: {killed} killed [{time.monotonic() - started:.0f} s]", flush=True)
    return sorted(done, key=lambda m: m["number"])


def name_of(m):
    return f"{m['number']} {m['name'] or m['file'] + ':' + str(m['line'])}: `{m['original']}`: {m['change']}"


def judge(done, reasons):
    """Everything that makes the run fail, in words."""
    wrong = []
    survivors = [m for m in done if not m["killed_by"]]
    for m in survivors:
        if m["kind"] == "named":
            wrong.append(f"a named mutant survived: {name_of(m)}")
        elif not reasons.get(m["key"]):
            wrong.append(f"a survivor without an argument in survivors.md: {name_of(m)}\n"
                         f"    ## {m['file']}: {m['function']}\n    - ``{m['original']}`` | {m['change']}")
    automatic = [m for m in done if m["kind"] == "automatic"]
    killed = sum(bool(m["killed_by"]) for m in automatic)
    if killed < KILL_RATE * len(automatic):
        wrong.append(f"{killed} of {len(automatic)} automatic mutants are killed, the floor is {KILL_RATE:.0%}")
    for count, floor, what in ((len(automatic), 200, "automatic"), (len(done) - len(automatic), 30, "named")):
        if count < floor:
            wrong.append(f"{count} {what} mutants, the floor is {floor}")
    known = {m["key"] for m in done}
    wrong += [f"survivors.md argues for what is no mutant: {key}" for key in reasons if key not in known]
    wrong += [f"survivors.md argues for what is killed: {m['key']} ({m['how']})" for m in done
              if m["killed_by"] and not reasons.get(m["key"], "Undefined:").startswith("Undefined:")]
    return wrong


def table(done, summary):
    def row(m):
        cells = (m["name"] or m["number"], f"{m['file']}:{m['line']}", f"`{m['original'][:90]}`: {m['change'][:90]}",
                 f"{m['killed_by']}: {m['how']}" if m["killed_by"] else "**survived**", m["seconds"])
        return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"
    head = "| mutant | where | change | killed by | s |\n|---|---|---|---|---|\n"
    parts = [("Named", "named"), ("Automatic", "automatic")]
    return "# Planted faults\n\n" + summary + "\n" + "".join(
        f"\n## {title}\n\n{head}" + "\n".join(row(m) for m in done if m["kind"] == kind) + "\n" for title, kind in parts)


def summary_of(done, started):
    lines = []
    for kind in ("named", "automatic"):
        some = [m for m in done if m["kind"] == kind]
        lines.append(f"{sum(bool(m['killed_by']) for m in some)} of {len(some)} {kind} mutants killed")
    seconds = sorted(m["seconds"] for m in done)
    return f"{', '.join(lines)}; {time.monotonic() - started:.0f} s, the median mutant {seconds[len(seconds) // 2]:.2f} s\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder that holds bin/mutant_tests")
    parser.add_argument("--out", type=pathlib.Path, help="where the table goes; default: the build folder")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="run this one and show the output")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    mutants = json.loads((options.build / "tests/sim/mutants/generated/mutants.json").read_text())
    if options.list:
        return print("\n".join(name_of(m) for m in mutants))
    killers = killers_of(options.build)
    if options.only is not None:
        for killer in killers:
            code, seconds, output = run(killer, options.only, 600)
            print(output[-3000:], f"{killer.name}: exit code {code}, {seconds:.2f} s", sep="\n")
        return
    control(killers)
    done = run_all(mutants, killers, options.jobs, started)
    summary = summary_of(done, started)
    out = options.out or options.build
    (out / "mutants.json").write_text(json.dumps(done, indent=1) + "\n")
    (out / "mutants.md").write_text(table(done, summary))
    wrong = judge(done, argued())
    print("\n".join(wrong), summary, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
