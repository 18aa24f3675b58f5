#!/usr/bin/env python3
"""Writes a copy of sources in which every planted fault is a switch, and a manifest that says what each number means.

    generate.py --root CHECKOUT --out FOLDER [--list]

One compilation then holds all mutants: `TROUPE_MUTANT=17 mutant_tests` runs with the 17th, without it nothing is changed.
The list of files and of functions that are left alone is in targets.toml, the named mutants are in named.toml.
"""

import argparse
import json
import pathlib
import re
import sys
import tomllib
from dataclasses import dataclass, field

from cpp_text import Source, Unit, tokens_of
from operators import edits_of

HERE = pathlib.Path(__file__).parent
INCLUDE = '#include "tests/sim/mutants/switch.hpp"\n'


@dataclass
class Mutant:
    number: int
    kind: str            # named or automatic
    name: str
    file: str
    function: str
    line: int
    original: str        # of the whole unit, on one line
    change: str
    text: str = field(repr=False, default="")  # the whole unit as the mutant has it
    why: str = ""

    @property
    def key(self):
        return f"{self.file}: {self.function} | {self.original} | {self.change}"


def one_line(text):
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


class Mutated:
    """One file, its units and the mutants in them."""

    def __init__(self, name, text, skip):
        self.name = name
        self.source = Source(text)
        self.units = {}      # (start, end) -> (unit, mutants)
        for unit in self.source.units:
            if unit.function.split("(")[0] not in skip:
                self._automatic(unit)
        self.seen = {}

    def _automatic(self, unit):
        expression = unit.kind != "declared"
        edits = unit.edits + (list(edits_of(self.source, unit)) if expression else [])
        if edits:
            self.units[unit.start, unit.end] = (unit, edits, [])

    def number_all(self, first):
        """Numbers for the automatic mutants; equal changes of equal units are told apart by a count."""
        text, number = self.source.text, first
        for unit, edits, mutants in self.units.values():
            original = one_line(text[unit.start:unit.end])
            for start, end, new, change in edits:
                count = self.seen[unit.function, original, change] = self.seen.get((unit.function, original, change), 0) + 1
                change += f" ({count})" if count > 1 else ""
                mutants.append(Mutant(number, "automatic", "", self.name, unit.function, text.count("\n", 0, start) + 1,
                                      original, change, text[unit.start:start] + new + text[end:unit.end]))
                number += 1
        return number

    def plant(self, entry, number):
        """A named mutant. Its text must be in the file once, however it is broken into lines."""
        text = self.source.text
        pattern = r"\s*".join(re.escape(t.text) for t in tokens_of(entry["find"]))
        area = self._area(entry)
        found = [m for m in re.finditer(pattern, text) if area[0] <= m.start() and m.end() <= area[1]]
        if len(found) != 1:
            raise ValueError(f"named mutant `{entry['name']}`: its text is in {self.name} {len(found)} times, not once:\n"
                             f"    {one_line(entry['find'])}")
        start, end = found[0].span()
        kind = "stmt" if text[end - 1] in ";}" else "value"
        function = next((u.function for u in self.source.units if u.start <= start < u.end), "")
        unit, _, mutants = self.units.setdefault((start, end), (Unit(kind, start, end, function), [], []))
        mutants.append(Mutant(number, "named", entry["name"], self.name, unit.function, text.count("\n", 0, start) + 1,
                              one_line(text[start:end]), one_line(entry["replace"]) or "nothing",
                              entry["replace"], entry["why"]))

    def _area(self, entry):
        if "function" not in entry:
            return 0, len(self.source.text)
        for function, first, last in self.source.bodies:
            if function.split("::")[-1] == entry["function"]:
                return self.source.tokens[first].start, self.source.tokens[last].end
        raise ValueError(f"named mutant `{entry['name']}`: {self.name} has no function {entry['function']}")

    # ---- writing

    def write(self):
        spans = sorted(self.units, key=lambda s: (s[0], -s[1]))
        for a, b in zip(spans, spans[1:]):
            if a[0] < b[0] < a[1] < b[1]:
                raise ValueError(f"{self.name}: `{one_line(self.source.text[slice(*a)])}` and "
                                 f"`{one_line(self.source.text[slice(*b)])}` overlap")
        return INCLUDE + f'#line 1 "{self.name}"\n' + self._emit(0, len(self.source.text), spans)

    def _emit(self, start, end, spans):
        out, at = [], start
        while spans:
            first = spans[0]
            inner = [s for s in spans[1:] if s[1] <= first[1]]
            unit, _, mutants = self.units[first]
            body = self._emit(*first, inner)
            out += [self.source.text[at:first[0]], self._switch(unit, mutants, body)]
            at = first[1]
            spans = spans[1 + len(inner):]
        return "".join(out) + self.source.text[at:end]

    def _switch(self, unit, mutants, body):
        if unit.kind == "declared":
            return mutants[0].text.replace("%s", f"::troupe::mutants::active({mutants[0].number})")
        for m in reversed(mutants):
            on = f"::troupe::mutants::active({m.number})"
            text = re.sub(r"//[^\n]*", "", m.text)
            if unit.kind == "stmt":
                body = f"if ({on}) {{ {text} }} else {{ {body} }}"
            elif unit.kind == "cond":
                body = f"({on} ? static_cast<bool>({text}) : static_cast<bool>({body}))"
            else:
                body = f"({on} ? ({text}) : ({body}))"
        return f"{{ {body} }}" if unit.kind == "stmt" else body


def mutate(root):
    """The mutated files and all mutants: the named ones have the first numbers."""
    targets = tomllib.loads((HERE / "targets.toml").read_text())
    named = tomllib.loads((HERE / "named.toml").read_text())["mutant"]
    files = {}
    for target in targets["file"]:
        name = target["name"]
        files[name] = Mutated(name, (root / name).read_text(), set(target.get("without", [])))
    for number, entry in enumerate(named, 1):
        if entry["file"] not in files:
            raise ValueError(f"named mutant `{entry['name']}`: {entry['file']} is not in targets.toml")
    number = len(named) + 1
    for file in files.values():
        number = file.number_all(number)
    for position, entry in enumerate(named, 1):
        files[entry["file"]].plant(entry, position)
    mutants = sorted((m for f in files.values() for _, _, ms in f.units.values() for m in ms), key=lambda m: m.number)
    return files, mutants


def write_if_new(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="print the mutants, write nothing")
    options = parser.parse_args()
    try:
        files, mutants = mutate(options.root)
        texts = {name: file.write() for name, file in files.items()}
    except ValueError as error:
        sys.exit(f"generate.py: {error}")
    if options.list:
        for m in mutants:
            print(f"{m.number}\t{m.name or m.kind}\t{m.file}:{m.line}\t{m.original}\t{m.change}")
        return
    for name, text in texts.items():
        write_if_new(options.out / name, text)
    rows = [{k: v for k, v in vars(m).items() if k != "text"} | {"key": m.key} for m in mutants]
    (options.out / "mutants.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
