"""Real chat templates, rendered by our engine and by Python's Jinja2, which must agree to the byte.

The templates are those that come with the source package of llama-cpp-python; they are fetched once into
build/peer-templates. No template may be silently different: it equals Jinja2 on every conversation, or it
is in REFUSED with the part of our error that says what is not supported.
"""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request

import jinja2.ext
import jinja2.nodes
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pip._internal.models.index import PyPI

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
FOLDER_INSIDE = "/vendor/llama.cpp/models/templates/"
NOW = 1753868042  # 30 July 2025, what strftime_now shows

# File name -> a part of the error with which our engine refuses it.
REFUSED = {}

root = pathlib.Path(__file__).resolve().parents[2]
cache = root / "build" / "peer-templates" / VERSION
binary = pathlib.Path(os.environ.get("TROUPE_BINARY", str(root / "build/release/bin/troupe")))
renderer = binary.parent / "render_template"

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "  Hi <b>there</b>!\n")],
    [("system", "You are X."), ("user", "1+1?"), ("assistant", "2"), ("user", 'and "more"\\ \n\ttext é日本😀?')],
    [("user", "a"), ("assistant", "<think>\nhm\n</think>\n\nanswer"), ("user", "b"), ("assistant", "c </think> d"), ("user", "e")],
    [("system", ""), ("user", ""), ("assistant", ""), ("user", " ")],
    [("user", "a"), ("user", "b")],
    [("assistant", "first"), ("user", "x")],
    [("user", "x"), ("assistant", "y")],
    [("user", "q"), ("system", "late system"), ("user", "r")],
    [("developer", "dev text"), ("user", "<|im_end|>{{ 1 }} [INST] </s>")],
    [("user", "call it"), ("assistant", "calling"), ("tool", '{"r": 1}'), ("assistant", "done"), ("user", "ok")],
]

# A request brings no tools or calls yet; put in front of a template, these show the code for them.
TOOLS = """{%- set tools = [{"type": "function", "function": {"name": "weather",
 "description": "Tells the <b>weather</b>.\\nOf a town.", "parameters": {"type": "object",
 "properties": {"town": {"type": "string", "description": "Which \\"town\\""}, "days": {"type": "integer",
 "enum": [1, 2.5, none, true]}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["town"]}}},
 {"type": "function", "function": {"name": "add", "description": "é日", "parameters": {"type": "object",
 "properties": {}}}}] -%}"""
CALLS = """{%- set messages = [{"role": "system", "content": "sys"}, {"role": "user", "content": "weather?"},
 {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
 "function": {"name": "weather", "arguments": {"town": "Bonn <x>", "days": 2, "tags": ["a", "b"]}}}]},
 {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "sunny\\n"},
 {"role": "assistant", "content": "Sun.", "reasoning_content": "hm"}, {"role": "user", "content": "ok"}] -%}"""
WITH_TOOLS = [TOOLS, CALLS, TOOLS + CALLS]


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers has it: its body alone."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class TemplateRaised(Exception):
    pass


def raise_exception(message):
    raise TemplateRaised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def jinja_environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return made


def request_of(turns, prompt):
    return {
        "messages": [{"role": role, "content": content} for role, content in turns],
        "add_generation_prompt": prompt,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }


def compiled(source):
    """Jinja2's template, or the error it makes of the source."""
    try:
        return jinja_environment().from_string(source)
    except jinja2.TemplateError as error:
        return error


def by_jinja(template, turns, prompt):
    """("text", text), ("raised", what the template said) or ("error", what Python said)."""
    if isinstance(template, Exception):
        return "error", str(template)
    try:
        return "text", template.render(**request_of(turns, prompt), tools=None, documents=None)
    except TemplateRaised as raised:
        return "raised", str(raised)
    except Exception as error:  # a template that cannot serve these messages
        return "error", f"{type(error).__name__}: {error}"


def by_us(path, turns, prompt):
    """("text", text) or ("refused", the one-line error)."""
    done = subprocess.run(
        [renderer, path], input=json.dumps({**request_of(turns, prompt), "now": NOW}).encode(), capture_output=True
    )
    assert done.returncode in (0, 1), f"{path.name}: render_template ended with {done.returncode}"
    if done.returncode == 0:
        return "text", done.stdout.decode()
    return "refused", done.stderr.decode().rstrip("\n")


def agree(theirs, ours):
    if theirs[0] == "text":
        return theirs == ours
    if theirs[0] == "raised":
        return ours == ("refused", theirs[1])
    return ours[0] == "refused"


def index_url():
    """The package index that pip uses here."""
    if given := os.environ.get("PIP_INDEX_URL"):
        return given
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    return asked.stdout.strip() if asked.returncode == 0 else PyPI.simple_url


def fetch_templates():
    """Downloads the source package, checks it against the index's sha256, keeps its templates."""
    wanted = urllib.request.Request(
        f"{index_url().rstrip('/')}/{PACKAGE}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(wanted, timeout=300) as answer:
        files = json.load(answer)["files"]
    name = f"{PACKAGE.replace('-', '_')}-{VERSION}.tar.gz"
    (source,) = [file for file in files if file["filename"] == name]
    cache.parent.mkdir(parents=True, exist_ok=True)
    archive = cache.parent / source["filename"]
    url = urllib.parse.urljoin(wanted.full_url, source["url"])
    with urllib.request.urlopen(url, timeout=600) as answer, open(archive, "wb") as file:
        while chunk := answer.read(1 << 20):
            file.write(chunk)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == source["hashes"]["sha256"], "the download is damaged"
    incomplete = cache.with_suffix(".incomplete")
    incomplete.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile() and FOLDER_INSIDE in member.name and member.name.endswith(".jinja"):
                (incomplete / pathlib.PurePosixPath(member.name).name).write_bytes(packed.extractfile(member).read())
    archive.unlink()
    incomplete.rename(cache)


@pytest.fixture(scope="module")
def templates():
    if not cache.is_dir():
        try:
            fetch_templates()
        except urllib.error.HTTPError:
            raise  # the index was reached: no reason to skip
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = f"the package index is not reachable, so there are no real templates: {error}"
            print(reason, file=sys.stderr)
            pytest.skip(reason)
    return sorted(cache.glob("*.jinja"))


@pytest.fixture(scope="module", autouse=True)
def built_renderer():
    """tools/setup builds the product alone; this small program comes with the tests."""
    if "TROUPE_BINARY" not in os.environ:
        subprocess.run(["ninja", "-C", str(root / "build/release"), "render_template"], check=True, stdout=subprocess.DEVNULL)
    assert renderer.exists(), f"{renderer} is missing"


def compare(path, source, conversations):
    """The pairs of what Jinja2 and our engine make of one source."""
    template = compiled(source)
    return [
        (by_jinja(template, turns, prompt), by_us(path, turns, prompt))
        for turns in conversations
        for prompt in (True, False)
    ]


def compare_all(templates, pairs_of):
    """Checks each template's pairs; answers how many renderings had a text."""
    equal, refused, wrong, rendered = [], [], [], 0
    for path in templates:
        with open(path, encoding="utf-8", newline="") as file:
            pairs = pairs_of(path, file.read())
        rendered += sum(theirs[0] == "text" for theirs, _ in pairs)
        different = [(theirs, ours) for theirs, ours in pairs if not agree(theirs, ours)]
        if not different:
            equal.append(path.name)
        elif path.name in REFUSED and all(ours[0] == "refused" and REFUSED[path.name] in ours[1] for _, ours in different):
            refused.append(path.name)
        else:
            wrong.append((path.name, different[0]))
    print(f"{len(equal)} of {len(templates)} templates equal Jinja2's text ({rendered} renderings), {len(refused)} refused by name")
    assert not wrong, wrong
    assert len(refused) <= len(templates) * 0.2
    return rendered, refused


def test_real_templates_render_as_jinja_renders_them_or_are_refused_by_name(templates):
    assert len(templates) >= 60
    rendered, refused = compare_all(templates, lambda path, source: compare(path, source, CONVERSATIONS))
    assert set(refused) == set(REFUSED), "the list of refused templates is out of date"
    assert rendered >= 15 * len(templates)


def test_real_templates_render_tools_and_calls_as_jinja_renders_them(templates, tmp_path):
    def pairs_of(_, source):
        pairs = []
        for number, prefix in enumerate(WITH_TOOLS):
            path = tmp_path / f"{number}.jinja"
            path.write_text(prefix + source, encoding="utf-8", newline="")
            pairs += compare(path, prefix + source, CONVERSATIONS[:1] + CONVERSATIONS[2:3])
        return pairs

    rendered, _ = compare_all(templates, pairs_of)
    assert rendered >= 8 * len(templates)


def test_a_wrong_rendering_would_be_seen():
    text = ("text", "a")
    assert agree(text, ("text", "a")) and not agree(text, ("text", "b")) and not agree(text, ("refused", "a"))
    assert agree(("raised", "x"), ("refused", "x")) and not agree(("raised", "x"), ("refused", "y"))
    assert agree(("error", "x"), ("refused", "y")) and not agree(("error", "x"), ("text", ""))


def test_the_renderer_reports_errors_and_takes_the_clock_given(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}")
    assert by_us(template, [("user", "é")], False) == ("text", "2025-07-30 é")
    template.write_text("{{ 1 +")
    kind, error = by_us(template, [("user", "x")], False)
    assert kind == "refused" and error.startswith("line 1, column ")
