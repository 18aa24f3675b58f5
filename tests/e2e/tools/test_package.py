"""The installed package as a user's project sees it, far from this tree: it finds the package, builds the two examples and
the programs that actors/embedding/README.md shows, and runs them on the real model."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from troupe_process import binary, default_model, root

build = pathlib.Path(binary).resolve().parents[1]


def run(*command, timeout=1800, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, (command, done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def examples(installed, tmp_path_factory):
    """The built examples of a project that knows only the prefix."""
    project = tmp_path_factory.mktemp("project")
    for name in ("CMakeLists.txt", "hello.cpp", "embed.cpp"):
        shutil.copy(root / "examples" / name, project)
        assert len((project / name).read_text().splitlines()) < 100
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={installed}", cwd=project)
    run("cmake", "--build", project / "build", "--parallel", os.cpu_count(), cwd=project)
    return project / "build"


def test_the_prefix_holds_the_program_and_no_path_of_the_tree(installed):
    assert "serve" in run(installed / "bin/troupe", "--help")
    files = [path for path in installed.rglob("*") if path.suffix in (".cmake", ".hpp")]
    assert (installed / "include/troupe/actors/embedding/caf_system.hpp") in files
    assert [path for path in files if str(root) in path.read_text()] == []


def test_the_package_says_which_version_it_is(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(wants LANGUAGES CXX)\n"
                                             "find_package(troupe 9.9 REQUIRED)\n")
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "requested version" in done.stderr and "0.1.0" in done.stderr


def test_hello_answers_one_prompt_in_process(examples):
    out = run(examples / "hello", default_model, "Name three rivers.").splitlines()
    assert "river" in " ".join(out[:-1]).lower()
    assert out[-1].startswith(("end_token, ", "length, "))


def test_embed_reads_tokens_cancels_one_request_and_finds_the_pool_whole(examples):
    out = run(examples / "embed", default_model)
    assert "request 1: " in out and "request 2: " in out
    assert "request 2 ended: cancelled after " in out
    assert "request 1 ended: end_token after " in out or "request 1 ended: length after " in out
    assert ": whole\n" in out


def test_the_examples_tell_what_is_wrong(examples):
    for name in ("hello", "embed"):
        done = subprocess.run([examples / name, "nowhere.gguf"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1 and "nowhere.gguf" in done.stderr, done
        assert subprocess.run([examples / name], capture_output=True, timeout=300).returncode == 2


def code_blocks(language):
    """The fenced code of actors/embedding/README.md in this language, in order."""
    page = (root / "actors/embedding/README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("way", ["future", "callbacks"])
def test_the_programs_of_the_embedding_page_build_and_answer(installed, tmp_path, way):
    [cmake] = code_blocks("cmake")
    program, callbacks, _ = code_blocks("cpp")
    if way == "callbacks":
        by_future = re.compile(r"^  const auto answer = .*?(?=^})", re.MULTILINE | re.DOTALL)
        assert len(by_future.findall(program)) == 1
        include, body = callbacks.split("\n\n", 1)
        program = include + "\n" + by_future.sub(lambda _: body, program)
    (tmp_path / "CMakeLists.txt").write_text(cmake)
    (tmp_path / "mine.cpp").write_text(program)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "build")
    out = run(tmp_path / "build/mine", default_model).splitlines()
    assert "river" in " ".join(out[:-1]).lower()
    assert out[-1] in ("end_token", "length")


def test_the_actor_lines_of_the_embedding_page_are_those_of_the_example():
    example = [line.strip() for line in (root / "examples/embed.cpp").read_text().splitlines()]
    shown = [line.strip() for line in code_blocks("cpp")[2].splitlines() if line.strip()]
    assert shown and [line for line in shown if line not in example] == []
