#!/usr/bin/env python3
"""What clang's tools say of the sources: their format, whether clang compiles them too, and the lint of .clang-tidy.

    tools/clang_checks.py format            all sources of this checkout are as clang-format writes them
    tools/clang_checks.py syntax            every source compiles with clang, warnings are errors
    tools/clang_checks.py tidy [changed]    clang-tidy on actors/core and what differs from origin/main or main
    tools/clang_checks.py tidy all          clang-tidy on every source of the product
    tools/clang_checks.py --self-test       each of the three finds a planted fault

`syntax` and `tidy` take their commands from build/release/compile_commands.json. What passed is remembered by the
content of all files that took part (in ~/.cache/troupe-clang), so that a second run, also of another clone, looks only
at what changed.

`syntax` precompiles, once for all sources with the same arguments, the headers of others that a third of them include:
4.1 minutes of CPU for the whole tree instead of 6.4 (389 sources, nothing remembered). More headers make it slower (CAF's
cost every source that does not use them); batches of sources in one unit would clash in their anonymous namespaces; and
looking only at what differs from main would let through what a change of a header breaks. An include that is missing is
the build's to find, which has no such headers. clang-tidy gains nothing by them, so it goes without: 3 seconds a source.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading

root = pathlib.Path(__file__).resolve().parents[1]
cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "troupe-clang"
# Warnings that GCC does not have or that are noise in headers of others, and why.
ALLOWED = [
    "-Wno-unknown-warning-option",   # options of GCC in the compile commands
    "-Wno-unused-command-line-argument",
]
SOURCES = ("actors/", "config/", "examples/", "gpu/", "net/", "tests/", "tools/")


def listed(*patterns):
    out = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
                         capture_output=True, check=True).stdout.decode()
    return sorted(name for name in out.split("\0") if name and (root / name).is_file())


def format_faults(names, folder=root):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=folder, capture_output=True, text=True)
    return sorted({line.split(":")[0] for line in done.stderr.splitlines() if ": error:" in line})


def commands():
    """source -> its arguments for clang, without those that write objects."""
    path = root / "build/release/compile_commands.json"
    if not path.exists():
        sys.exit("clang_checks: no build/release/compile_commands.json: run tools/setup")
    found = {}
    for entry in json.loads(path.read_text()):
        name = os.path.relpath(entry["file"], root)
        if not name.startswith(SOURCES):
            continue
        words = shlex.split(entry["command"])
        start = next(i for i, word in enumerate(words) if word.endswith(("c++", "g++", "clang++"))) + 1
        kept, skip = [], False
        for word in words[start:]:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-include"):
                skip = word != "-c"
            elif word != entry["file"] and not word.startswith(("-fno-sanitize", "-Winvalid-pch")):
                kept.append(word)
        found[name] = (kept, entry["directory"])
    return found


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)


class shared_headers:
    """The headers of others that sources with equal arguments include, precompiled once for all of them."""

    def __init__(self, known, folder):
        self.folder, self.seen, self.made, self.lock = folder, {}, {}, threading.Lock()
        self.sources = collections.defaultdict(list)
        for name, (arguments, _) in known.items():
            self.sources[tuple(arguments)].append(name)

    def included(self, name):
        """What the file and our headers under it include of others."""
        if name not in self.seen:
            self.seen[name] = set()
            try:
                text = (root / name).read_text()
            except OSError:
                return set()
            for quote, header in INCLUDE.findall(text):
                self.seen[name] |= {header} if quote == "<" else self.included(header)
        return self.seen[name]

    def arguments(self, arguments):
        """What a source with these arguments is given beside them; nothing where it would not pay or does not compile."""
        with self.lock:
            entry = self.made.setdefault(tuple(arguments), {"lock": threading.Lock()})
        with entry["lock"]:
            if "words" not in entry:
                entry["words"] = self.make(arguments)
        return entry["words"]

    def make(self, arguments):
        names = self.sources[tuple(arguments)]
        if len(names) < 4:
            return []
        with self.lock:
            counts = collections.Counter(header for name in names for header in self.included(name))
        header = self.folder / f"{digest(arguments)}.hpp"
        header.write_text("".join(f"#include <{name}>\n" for name, count in sorted(counts.items()) if 3 * count > len(names)))
        made = subprocess.run(["clang++", *arguments, *ALLOWED, "-x", "c++-header", str(header), "-o", f"{header}.pch"],
                              capture_output=True)
        return [] if made.returncode else ["-include-pch", f"{header}.pch"]


def digest(parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def known_good(name, key, command):
    """The files that took part last time have the content they had then."""
    stamp = cache / digest([name, key])
    try:
        remembered = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    if remembered["command"] != command:
        return False
    for part, content in remembered["files"].items():
        try:
            if hashlib.sha256((root / part).read_bytes()).hexdigest() != content:
                return False
        except OSError:
            return False
    return True


def remember(name, key, command, dependencies):
    files = {}
    for part in dependencies:
        path = pathlib.Path(part).resolve()
        if path.is_relative_to(root):
            files[str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / digest([name, key])).write_text(json.dumps({"command": command, "files": files}))


def dependencies_of(name, arguments, directory):
    done = subprocess.run(["clang++", *arguments, "-MM", str(root / name)], cwd=directory, capture_output=True, text=True)
    return done.stdout.replace("\\\n", " ").partition(":")[2].split()


def check_one(name, arguments, directory, tool, shared):
    """What is wrong with one source; empty when nothing is."""
    relative = digest([word.replace(str(root), "") for word in arguments])
    config = (root / ".clang-tidy").read_text() if tool == "tidy" else ""
    command = digest([relative, config, *ALLOWED])
    if known_good(name, tool, command):
        return ""
    if tool == "syntax":
        words = ["clang++", *arguments, *ALLOWED, *shared.arguments(arguments), "-Werror", "-fsyntax-only", str(root / name)]
    else:
        words = ["clang-tidy", "--quiet", "--warnings-as-errors=*", str(root / name), "--", *arguments, *ALLOWED]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r": (error|warning):", line)]
        return "\n".join(lines[:5]) or f"{name}: {done.stderr[-500:]}"
    remember(name, tool, command, dependencies_of(name, arguments, directory))
    return ""


def check(names, tool):
    known = commands()
    faults = []
    wanted = [name for name in names if name in known]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        shared = shared_headers(known, pathlib.Path(folder))
        for fault in pool.map(lambda name: check_one(name, *known[name], tool, shared), wanted):
            if fault:
                print(fault, flush=True)
                faults.append(fault)
    return len(wanted), len(faults)


def changed():
    for base in ("origin/main", "main"):
        found = subprocess.run(["git", "-C", root, "merge-base", base, "HEAD"], capture_output=True, text=True)
        if found.returncode == 0:
            names = subprocess.run(["git", "-C", root, "diff", "--name-only", found.stdout.strip()], capture_output=True,
                                   text=True, check=True).stdout.split()
            return [name for name in names if name.endswith(".cpp") and not name.startswith("tests/")]
    return []


def self_test():
    """One planted fault for each tool."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for config in (".clang-format", ".clang-tidy"):
            (copy / config).write_text((root / config).read_text())
        (copy / "ugly.cpp").write_text("int  planted( );\n")
        (copy / "clean.cpp").write_text("int planted();\n")
        (copy / "wrong.cpp").write_text("struct a { int used; };\nint f(a x) { int unused = 1; return x.used; }\n")
        (copy / "lint.cpp").write_text("#include <string>\n#include <utility>\n"
                                       "std::size_t f(std::string s) { auto t = std::move(s); return s.size() + t.size(); }\n")
        good = format_faults(["ugly.cpp", "clean.cpp"], copy) == ["ugly.cpp"]
        flags = ["-std=c++20", "-Wall", "-Wextra"]
        wrong = subprocess.run(["clang++", *flags, "-Werror", "-fsyntax-only", "wrong.cpp"], cwd=copy, capture_output=True)
        lint = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", "lint.cpp", "--", *flags], cwd=copy,
                              capture_output=True, text=True)
        clean = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", "clean.cpp", "--", *flags], cwd=copy,
                               capture_output=True)
    results = {"format": good, "syntax": wrong.returncode != 0,
               "tidy": "bugprone-use-after-move" in lint.stdout and clean.returncode == 0}
    return [f"{tool}: the planted fault was not found" for tool, found in results.items() if not found]


def main():
    arguments = sys.argv[1:]
    if arguments == ["format"]:
        names = listed("*.cpp", "*.hpp")
        faults = format_faults(names)
        for name in faults:
            print(f"{name}: not as clang-format writes it")
        print(f"clang_checks: format of {len(names)} files: {len(faults) or 'no'} faults")
    elif arguments == ["syntax"]:
        count, bad = check(listed("*.cpp"), "syntax")
        print(f"clang_checks: syntax of {count} sources: {bad or 'no'} faults")
        faults = [""] * bad
    elif arguments[:1] == ["tidy"] and arguments[1:] in ([], ["changed"], ["all"]):
        if arguments[1:] == ["all"]:
            names = [name for name in listed("*.cpp") if not name.startswith(("tests/", "examples/"))]
        else:
            names = sorted({*listed("actors/core/*.cpp"), *changed()})
        count, bad = check(names, "tidy")
        print(f"clang_checks: clang-tidy on {count} sources: {bad or 'no'} with findings")
        faults = [""] * bad
    elif arguments == ["--self-test"]:
        faults = self_test()
        print("\n".join(faults) or "clang_checks: self-test: clean")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
