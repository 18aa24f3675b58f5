#!/usr/bin/env python3
"""Plants faults in the actor shells, one at a time, and lets troupe-simulate look for each.

A planted shell is compiled beside the build and linked in front of it, so neither the sources nor the build change.

  planted.py BUILD_DIR [--only NAME] [--jobs N]
  planted.py --texts                              only that each fault's text is in its source, once: a moment

Prints one line per fault: found or not, after how many runs, by which rule. Exit code 1 if one is not found, or if the
simulator complains of the shells as they are.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEDULER, ALLOCATOR, EXECUTOR, MOVER = (
    f"actors/{role}_actor.cpp" for role in ("scheduler", "allocator", "executor", "mover"))
SERVED = "actors/scheduler/served_sessions.cpp"
SESSION, CHOICE = "actors/session/session_actor.cpp", "actors/session/session_choice.cpp"

# name, file, text, replacement
FAULTS = [
    ("the death of a session is ignored", SCHEDULER,
     "      close(core::cancel{request, core::end_reason::session_crash, now()});", "      (void)request;"),
    ("sessions are not monitored", SERVED, "  if (of_session.empty()) scheduler_->monitor(session);\n", ""),
    ("a session that ended is not forgotten", SCHEDULER,
     "    to_session(request, x);\n    sessions.forget(request);\n  }\n  void perform(core::reserve",
     "    to_session(request, x);\n  }\n  void perform(core::reserve"),
    ("the address of a session that ended is kept", SERVED, "  by_address_.erase(others);\n", ""),
    ("a session that ended is still monitored", SERVED,
     "  scheduler_->demonitor(address);\n  by_address_.erase(others);\n", ""),
    ("started is sent with every step", SCHEDULER, "std::exchange(found->started, true)", "found->started"),
    ("a second cancel is passed on only when it is the first", SCHEDULER,
     "      found->cancel_seen_at = event.seen_at;\n    apply(event);",
     "      return void(found->cancel_seen_at = event.seen_at);\n    apply(event);"),
    ("the timer is set once", SCHEDULER, "        state->ticking = false;\n", ""),
    ("a parked copy is not dropped", SCHEDULER, "    if (neighbours.mover) self->send(neighbours.mover, x);\n  }\n"
     "  void perform(core::preempted", "  }\n  void perform(core::preempted"),
    ("stopped is not reported", SCHEDULER, "gauges->set_over(gauges->stopped);", "gauges->draining = true;"),
    ("a cancel is not passed on", CHOICE, "  to_scheduler_.emplace_back(x.message);\n", "  (void)x;\n"),
    ("a sink that is gone is not noticed", CHOICE,
     "  machine_.on_cancel(core::end_reason::client_gone, seen != 0 ? seen : now, effects_);", "  (void)seen;"),
    ("the end delivered is not remembered", CHOICE, "  end_delivered_ = true;\n", ""),
    ("the death of a session is not reported to its client", CHOICE,
     "  end.times = record_.times;\n  sink->end(std::move(end));\n", "  end.times = record_.times;\n"),
    ("the end of a crashed session is not recorded", CHOICE, "  record_.times = own_times(now);\n  record_end();\n", ""),
    ("a session that ended does not quit", SESSION, "    self->quit();\n", ""),
    ("a token after the end changes the phase", CHOICE,
     "    if (!machine_.finished()) *client_.phase = core::life_phase::decode;",
     "    *client_.phase = core::life_phase::decode;"),
    ("a delivered piece gives no credit", SESSION,
     "[&](auto& choice) { choice.on_delivered(state->now()); }", "[](auto&) {}"),
    ("a stalled reader is not reported", CHOICE,
     "  to_scheduler_.emplace_back(core::reader_stalled{client_.id});\n", ""),
    ("a resumed reader is not reported", CHOICE,
     "  to_scheduler_.emplace_back(core::reader_resumed{client_.id});\n", ""),
    ("a release is dropped", ALLOCATOR, "if (state->is_planted_leak(ask)) return;",
     "if (ask.why == core::end_reason::client_gone) return;"),
    ("a release is not answered", ALLOCATOR,
     "        self->send(scheduler, core::released{ask.lease, back.usable});\n", "        (void)back;\n"),
    ("a denial is not answered", ALLOCATOR, "          self->send(scheduler, core::denied{ask.lease});\n", ""),
    ("a publish is applied twice", ALLOCATOR, "        if (!state->ledger.publish(computed))",
     "        state->ledger.publish(computed);\n        if (!state->ledger.publish(computed))"),
    ("a failed step is not reported", EXECUTOR, "self->send(scheduler, core::step_failed{plan.step, e.what()});", ""),
    ("a failed step is reported as done", EXECUTOR, "self->send(scheduler, core::step_failed{plan.step, e.what()});",
     "self->send(scheduler, core::step_done{plan.step, {}, 0});"),
    ("all slices use the first one's blocks", EXECUTOR, "    slice.blocks = std::move(item.blocks);",
     "    slice.blocks = plan.items.front().blocks;"),
    ("a step is run twice", EXECUTOR, "        auto report = to_report(device->run(*planned));",
     "        auto report = to_report(device->run(*planned));\n        self->send(scheduler, report);"),
    ("checksums are not compared", MOVER, "if (!out && !intact(places, granted))", "if (false)"),
    ("a failed copy counts as good", MOVER, "ok ? core::move_outcome::ok : core::move_outcome::failed",
     "core::move_outcome::ok"),
    ("a refused copy is not answered", MOVER,
     "      finish({move, core::move_outcome::failed});  // refused before it touched anything\n", ""),
    ("a dropped copy stays", MOVER, "    if (ledger.drop(lease) == 0 &&", "    if (false &&"),
]


def misplaced():
    """The faults that cannot be planted, because their source has changed or moved."""
    problems = []
    for name, file, old, _ in FAULTS:
        source = ROOT / file
        times = source.read_text().count(old) if source.exists() else 0
        if times != 1:
            problems.append(f"{name}: its text is {times} times in {file}, must be there once")
    return problems


def output_of(command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.compile = {
            str(pathlib.Path(entry["file"]).resolve()): entry
            for entry in json.loads((self.folder / "compile_commands.json").read_text())
        }
        lines = output_of(["ninja", "-C", str(self.folder), "-t", "commands", "troupe-simulate"]).splitlines()
        self.link = next(line for line in reversed(lines) if " -o bin/troupe-simulate " in line)

    def planted(self, target, _, file, old, new):
        """Compiles `file` with the fault and links a simulator with it."""
        text = (ROOT / file).read_text().replace(old, new)
        source = target.with_suffix(".cpp")
        source.write_text(text)
        words = shlex.split(self.compile[str(ROOT / file)]["command"])
        for flag, value in (("-o", str(target.with_suffix(".o"))), ("-c", str(source))):
            words[words.index(flag) + 1] = value
        for flag in ("-MT", "-MF"):
            if flag in words:
                words[words.index(flag) + 1] = str(target.with_suffix(".d"))
        subprocess.run([*words, "-w", "-O1", "-g0"], check=True, cwd=self.folder)
        link = self.link.replace(" -o bin/troupe-simulate ", f" {target.with_suffix('.o')} -o {target} -s ")
        subprocess.run(link, shell=True, check=True, cwd=self.folder)


def simulate(program, jobs):
    ran = subprocess.run([program, "--ci", "--json", "--jobs", str(jobs)], capture_output=True, text=True, check=False)
    answer = json.loads(ran.stdout) if ran.stdout else {}
    return ran.returncode, answer, ran.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", help="a build folder that holds bin/troupe-simulate")
    parser.add_argument("--texts", action="store_true", help="only look whether each fault can be planted")
    parser.add_argument("--only", help="faults whose name has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compile-only", metavar="FOLDER", help="leave the planted programs there and run none")
    parser.add_argument("--programs", metavar="FOLDER", help="run the planted programs of --compile-only")
    options = parser.parse_args()
    if not options.texts and not options.build:
        parser.error("which build? (or --texts)")
    problems = misplaced()
    if problems or options.texts:
        print("\n".join(problems) or f"{len(FAULTS)} faults can be planted")
        sys.exit(1 if problems else 0)
    build = Build(options.build)
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.compile_only or options.programs or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.only and not options.compile_only:
            code, answer, error = simulate(build.folder / "bin" / "troupe-simulate", options.jobs)
            print(f"as it is: {'sound' if code == 0 else 'NOT SOUND'}, {answer.get('runs', 0)} runs {error}", flush=True)
            missed += code != 0
        chosen = [(folder / f"planted-{number}", *fault) for number, fault in enumerate(FAULTS)
                  if not options.only or options.only in fault[0]]
        if not options.programs:
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                list(pool.map(lambda one: one[0].exists() or build.planted(*one), chosen))
        for program, name, *_ in chosen:
            if options.compile_only:
                break
            code, answer, error = simulate(program, options.jobs)
            found = code == 1 and "violation" in answer
            missed += not found
            rule = answer.get("found_as", error) if found else error
            print(f"{'found' if found else 'NOT FOUND'} | {name} | {answer.get('found_after_runs', answer.get('runs', 0))} | "
                  f"{answer.get('scenario', '')} | {rule}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
