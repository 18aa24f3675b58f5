#!/usr/bin/env python3
"""The house rules that a machine can check: who may include whom, what pure files must not see, file lengths,
files of a folder, folder READMEs, where each source is tested, paths in backticks that are not there, leftovers.
Prints one line per violation; exit code 1 when there is one.

    tools/tidy.py              checks this checkout (tracked and new files, not ignored ones)
    tools/tidy.py --self-test  plants one violation of each rule in a copy and expects it to be found
"""

import collections
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = {".hpp", ".cpp"}
TEXT = SOURCE | {".md", ".txt", ".py", ".cmake", ".json", ".toml", ".ini", ""}
MAX_LINES, MAX_KERNEL_LINES = 400, 600
MAX_SIBLINGS = 25  # files of one folder beside its README.md and CMakeLists.txt
# A shell passes messages on; what decides belongs to actors/core.
SHELL = re.compile(r"^actors/(session/)?(\w+_actor|runtime)\.cpp$")
MAX_SHELL_LINES = 250
TESTED_BY = "tests/tested_by.txt"  # where sources are tested that have no test of their own name
TESTED = re.compile(r"^(actors|config|gpu|net|tools)/.*\.cpp$")

# Longest matching prefix says where a file belongs and what of ours it may include.
LAYERS = {
    "config/": ("config/",),
    "actors/api/": ("config/", "actors/api/"),
    "actors/core/": ("config/", "actors/api/", "actors/core/"),
    "actors/protocol/": ("config/", "actors/api/", "actors/core/", "actors/protocol/"),
    "actors/": ("config/", "actors/", "gpu/"),
    "gpu/": ("config/", "gpu/"),
    "net/": ("config/", "actors/api/", "net/"),
}
OURS = ("actors/", "gpu/", "net/", "config/", "tests/", "examples/", "tools/")
CAF_ALLOWED = re.compile(r"^(actors/protocol/|actors/(session/)?\w+_actor\.[hc]pp$|actors/runtime\.[hc]pp$|actors/(runtime|scheduler)/|actors/embedding/caf_system\.[hc]pp$|actors/fail_stop\.[hc]pp$|"
                         r"tests/actors/|tests/sim/shells/|tests/support/|examples/)")
BOOST_ALLOWED = re.compile(r"^(net/|tests/net/|tools/chaos/|tools/client/|tools/bench/)")
PURE = re.compile(r"^actors/(api|core)/")
# A device is reached through gpu/make_backend; its own headers are for itself, its tests and the bench of its kernels.
DEVICE = re.compile(r"^gpu/(cpu|cuda)/")
DEVICE_ALLOWED = re.compile(r"^(gpu/make_backend\.cpp$|tests/gpu/|tests/tsan/|tools/bench/)")
IMPURE_HEADERS = {"thread", "chrono", "iostream", "mutex", "shared_mutex", "atomic", "condition_variable", "future",
                  "ctime", "time.h", "random", "spdlog/spdlog.h", "config/log.hpp", "unistd.h", "pthread.h"}
IMPURE_CALLS = re.compile(r"\b(std::chrono|steady_clock|system_clock|std::this_thread|std::cout|std::cerr|printf|log_event)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
BEFORE_PATH = r"(?<![\w./$}~*-])"
MACHINE_PATH = re.compile(BEFORE_PATH + r"/(work|root|home|tmp)/\w")
CHECKOUT_PATH = re.compile(BEFORE_PATH + r"/(work)/\w")  # tests and tools may name the others
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b")
NAMED_PATH = re.compile(r"`([\w.-]+/[\w./*-]+)`")
README_FOLDERS = ("actors", "gpu", "net", "config", "tests", "examples", "tools", "tests/e2e")


def tracked(root):
    """Files of the checkout that git would not ignore, as text paths."""
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, check=True).stdout.decode()
    return sorted({name for name in listing.split("\0") if name and (root / name).is_file()})


def include_violations(name, text):
    layer = max((prefix for prefix in LAYERS if name.startswith(prefix)), key=len, default=None)
    for quote, header in INCLUDE.findall(text):
        if quote == '"' and not header.startswith(OURS):
            yield f'includes "{header}": our include paths start at the root'
        if layer and header.startswith(OURS) and not header.startswith(LAYERS[layer]):
            yield f'includes "{header}": {layer} may include only {", ".join(LAYERS[layer])}'
        if (device := DEVICE.match(header)) and not name.startswith(device[0]) and not DEVICE_ALLOWED.match(name):
            yield f'includes "{header}": devices are reached through gpu/make_backend.hpp and gpu/backend.hpp'
        if header == "caf/all.hpp":
            yield "includes caf/all.hpp: include the narrow headers"
        elif header.startswith("caf/") and not CAF_ALLOWED.match(name):
            yield f"includes <{header}>: CAF belongs to protocol, the actor shells and the runtime"
        if header.startswith("boost/") and not BOOST_ALLOWED.match(name):
            yield f"includes <{header}>: Boost belongs to net"
        if PURE.match(name) and header in IMPURE_HEADERS:
            yield f"includes <{header}>: pure files know no clock, thread, log or randomness of their own"


def file_violations(name, text):
    suffix = pathlib.PurePosixPath(name).suffix
    if suffix in SOURCE:
        yield from include_violations(name, text)
        code = re.sub(r"//[^\n]*", "", text)
        if PURE.match(name) and (call := IMPURE_CALLS.search(code)):
            yield f"uses {call[0]}: pure files know no clock, thread or log"
        if suffix == ".hpp" and "#pragma once" not in text:
            yield "header without #pragma once"
    if suffix in SOURCE | {".py"}:
        lines, limit = text.count("\n"), MAX_KERNEL_LINES if name.startswith("gpu/cpu/") else MAX_LINES
        if lines > limit:
            yield f"{lines} lines, limit {limit}"
    if name != "tools/tidy.py" and suffix in TEXT:
        if leftover := LEFTOVER.search(text):
            yield f"leftover {leftover[0]}"
        if not name.startswith(("tests/", "tools/")) and (path := MACHINE_PATH.search(text)):
            yield f"names a path of one machine: {path[0]}"
        elif CHECKOUT_PATH.search(text):
            yield "names a path of one machine: /work"


def names_and_folders(names):
    """All that a path in a text may name: files, files without their suffix, folders."""
    have = {*names, *(name.rpartition(".")[0] for name in names)}
    return have | {str(folder) for name in names for folder in pathlib.PurePosixPath(name).parents}


def missing_paths(name, text, have):
    """Paths in backticks, from the file's folder or one above it on, whose first part is a folder there and which name nothing."""
    for path in NAMED_PATH.findall(text):
        starts = [folder for folder in pathlib.PurePosixPath(name).parents if str(folder / path.partition("/")[0]) in have]
        whole = [str(folder / path.removesuffix(".*").rstrip("/")) for folder in starts]
        if whole and not any(one in have or "*" in one and fnmatch.filter(have, one) for one in whole):
            yield f"names {path}, which is not there"


def sibling_violations(names):
    paths = map(pathlib.PurePosixPath, names)
    folders = collections.Counter(str(path.parent) for path in paths if path.name not in ("README.md", "CMakeLists.txt"))
    for folder, count in sorted(folders.items()):
        if count > MAX_SIBLINGS:
            yield f"{folder}: {count} files in one folder, at most {MAX_SIBLINGS}"


def untested(root, names):
    """Sources with neither a test of their name nor a line in the table, and lines of the table that name nothing."""
    have, lines = set(names), []
    if TESTED_BY in have:
        for number, line in enumerate((root / TESTED_BY).read_text().splitlines(), 1):
            if words := line.partition("#")[0].split():
                lines.append((words[0], re.compile(fnmatch.translate(words[0]).replace(".*", "[^/]*"))))
                for test in words[1:]:
                    if not fnmatch.filter(names, test):
                        yield f"{TESTED_BY}: line {number} names {test}, which is not there"
                if len(words) == 1:
                    yield f"{TESTED_BY}: line {number} names no test"
    for glob, _ in lines:
        if not fnmatch.filter(names, glob):
            yield f"{TESTED_BY}: no source is named {glob}"
    for name in filter(TESTED.match, names):
        if f"tests/{name[:-4]}_test.cpp" not in have and not any(shape.match(name) for _, shape in lines):
            yield f"{name}: no tests/{name[:-4]}_test.cpp and no line in {TESTED_BY}"


def shell_violations(root, names):
    for name in filter(SHELL.match, names):
        lines = (root / name).read_text().count("\n")
        if lines > MAX_SHELL_LINES:
            yield f"{name}: {lines} lines, a shell has at most {MAX_SHELL_LINES}"


def violations(root):
    found = []
    for folder in README_FOLDERS:
        if not (root / folder / "README.md").is_file():
            found.append(f"{folder}: no README.md, the folder's contract")
    names = tracked(root)
    have = names_and_folders(names)
    found += [*sibling_violations(names), *untested(root, names), *shell_violations(root, names)]
    for name in names:
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{name}: {what}" for what in file_violations(name, text)]
        if pathlib.PurePosixPath(name).suffix in SOURCE | {".md"}:
            found += [f"{name}: {what}" for what in missing_paths(name, text, have)]
    return found


# path -> what stands in the file, and the words of the violation that must be found in it
PLANTED = {
    "config/planted.hpp": ('#pragma once\n#include "gpu/backend.hpp"\n', "config/ may include only"),
    "actors/core/planted_caf.hpp": ("#pragma once\n#include <caf/actor.hpp>\n", "CAF belongs to"),
    "actors/core/planted_clock.hpp": ("#pragma once\n#include <chrono>\n", "pure files"),
    "actors/core/planted_call.cpp": ("auto t = std::chrono::steady_clock::now();\n", "pure files"),
    "actors/protocol/planted.hpp": ('#pragma once\n#include "gpu/backend.hpp"\n', "actors/protocol/ may include only"),
    "actors/planted_actor.cpp": ("#include <caf/all.hpp>\n", "narrow headers"),
    "actors/planted_net_actor.cpp": ('#include "net/server/server.hpp"\n', "actors/ may include only"),
    "gpu/planted.cpp": ('#include "actors/api/ids.hpp"\n', "gpu/ may include only"),
    "gpu/planted_boost.cpp": ("#include <boost/asio.hpp>\n", "Boost belongs to"),
    "net/planted.cpp": ('#include "actors/protocol/scheduler.hpp"\n', "net/ may include only"),
    "net/planted_gpu.cpp": ('#include "gpu/backend.hpp"\n', "net/ may include only"),
    "net/planted_core.cpp": ('#include "actors/core/scheduler_machine.hpp"\n', "net/ may include only"),
    "actors/api/planted_core.hpp": ('#pragma once\n#include "actors/core/events.hpp"\n', "actors/api/ may include only"),
    "actors/planted_device_actor.cpp": ('#include "gpu/cpu/backend_cpu.hpp"\n', "devices are reached through"),
    "tools/cli/planted_device.cpp": ('#include "gpu/cpu/weights/pack_weights.hpp"\n', "devices are reached through"),
    "gpu/planted_device.cpp": ('#include "gpu/cpu/kv_pool.hpp"\n', "devices are reached through"),
    "tests/support/planted_device.hpp": ('#pragma once\n#include "gpu/cpu/backend_cpu.hpp"\n', "devices are reached through"),
    "net/planted_local.cpp": ('#include "server.hpp"\n', "start at the root"),
    "net/planted_once.hpp": ("struct planted {};\n", "without #pragma once"),
    "net/planted_long.cpp": ("int planted();\n" * (MAX_LINES + 1), f"limit {MAX_LINES}"),
    "gpu/cpu/planted_long.cpp": ("int planted();\n" * (MAX_KERNEL_LINES + 1), f"limit {MAX_KERNEL_LINES}"),
    "actors/planted_long_actor.cpp": ("int planted();\n" * (MAX_SHELL_LINES + 1), f"at most {MAX_SHELL_LINES}"),
    "net/planted_page.md": ("Beside `net/README.md` stands `net/planted.hpp`.\n", "names net/planted.hpp"),
    "net/planted_comment.hpp": ("#pragma once\n// See `net/wire`.\n", "names net/wire"),
    "config/planted_note.cpp": ("// TO" + "DO: later\n", "leftover"),
    "config/planted_path.cpp": ('const char* planted = "/ro' + 'ot/model";\n', "path of one machine"),
    "net/planted_untested.cpp": ("int planted();\n", "no tests/net/planted_untested_test.cpp"),
}
# The clean files that the planted ones stand among.
CLEAN = {
    "net/clean.cpp": '#include <boost/asio.hpp>\n#include "actors/api/ids.hpp"\n',
    "actors/clean_actor.cpp": '#include <caf/actor.hpp>\n#include "gpu/backend.hpp"\n' + "int clean();\n" * (MAX_SHELL_LINES - 2),
    "gpu/make_backend.cpp": '#include "gpu/cpu/cpu_device.hpp"\n',
    "tests/net/clean_test.cpp": "",
    TESTED_BY: "actors/*.cpp  tests/net/*_test.cpp  # a line of the table\ngpu/*.cpp tests/net/*_test.cpp\n",
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def self_test(root):
    """Every planted violation is reported in its own words, and equal files without one are not."""
    failures = []

    def expect(what, begin, words=""):
        if not any(line.startswith(begin) and words in line for line in violations(copy)):
            failures.append(f"{what} was not found")

    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        for name, text in {**{f"{name}/README.md": "# planted\n" for name in README_FOLDERS}, **CLEAN}.items():
            write(copy / name, text)
        if clean := violations(copy):
            failures.append(f"clean files are reported: {clean}")
        for name, (text, words) in PLANTED.items():
            write(copy / name, text)
            expect(f"{name}: the planted violation ({words})", name + ":", words)
            (copy / name).unlink()
        for i in range(MAX_SIBLINGS + 1):
            write(copy / "config" / f"planted_{i}.hpp", "#pragma once\n")
        expect("a folder of too many files", f"config: {MAX_SIBLINGS + 1} files")
        for planted in (copy / "config").glob("planted_*"):
            planted.unlink()
        write(copy / TESTED_BY, CLEAN[TESTED_BY] + "config/*.cpp tests/net/*_test.cpp\nnet/*.cpp\n")
        expect("a line of the table that names no source", TESTED_BY, "no source is named config/*.cpp")
        expect("a line of the table that names no test", TESTED_BY, "line 4 names no test")
        (copy / "tests/net/clean_test.cpp").unlink()
        expect("a test of the table that is not there", TESTED_BY, "line 1 names tests/net/*_test.cpp")
        shutil.rmtree(copy / "net")
        expect("a folder without README.md", "net: no README")
    return failures


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    if sys.argv[1:] == ["--self-test"]:
        found, what = self_test(root), f"self-test of {len(PLANTED) + 5} planted violations"
    elif not sys.argv[1:]:
        found, what = violations(root), f"{len(tracked(root))} files"
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for line in found:
        print(line)
    print(f"tidy: {what}: {'clean' if not found else f'{len(found)} violations'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
