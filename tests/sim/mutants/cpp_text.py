"""A small reader of this project's C++: tokens, function bodies, and in them the pieces that a mutant may replace.

It knows just as much grammar as actors/core uses (statements, conditions, initialisers, lambdas) and never guesses: what
it does not recognise is left alone. Binary operators are those with a space on both sides, as .clang-format writes them.
"""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>\d[\w']*(?:\.\d+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|->|::|\+\+|--|&&|\|\||<=|>=|==|!=|\+=|-=|\*=|/=|%=|<<|\.\.\.|[-+*/%<>=!&|^~?:;,.(){}\[\]])
""", re.X | re.S | re.M)
OPENS = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class Unit:
    """A piece of source that variants may replace: `stmt` (with its semicolon), `cond` (a truth) or `value`."""
    kind: str
    start: int
    end: int
    function: str
    edits: list = field(default_factory=list)   # (start, end, replacement, change in words)
    first: int = 0                              # its tokens
    last: int = 0
    holes: list = field(default_factory=list)   # token ranges of lambda bodies, which have units of their own


def tokens_of(text):
    found, at = [], 0
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise ValueError(f"cannot read: {text[at:at + 40]!r}")
        if m.lastgroup != "skip":
            found.append(Token(m.lastgroup, m[0], m.start(), m.end()))
        at = m.end()
    return found


class Source:
    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.match = {}
        stack = []
        for i, t in enumerate(self.tokens):
            if t.text in OPENS:
                stack.append(i)
            elif t.text in OPENS.values():
                self.match[stack.pop()] = i
        self.units = []
        self.bodies = []     # (function, first token, last token)
        self.function = ""
        self._namespace(0, len(self.tokens))

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def binary(self, i):
        """The token stands between spaces, so it is an operator of two operands."""
        t = self.tokens[i]
        return self.text[t.start - 1].isspace() and self.text[t.end].isspace()

    def top_level(self, first, last):
        """The token indices in [first, last) that are in no bracket of that range."""
        i = first
        while i < last:
            yield i
            i = self.match[i] if i in self.match else i
            i += 1

    # ---- functions

    def _namespace(self, i, last):
        while i < last:
            if self.at(i) == "}":
                i += 1
                continue
            if self.at(i) == "namespace":
                while self.at(i) != "{":
                    i += 1
                i += 1
                continue
            i = self._declaration(i, last)

    def _declaration(self, first, last):
        seen = []
        if self.at(first) == "template":
            while self.at(first) != ">":
                first += 1
        for i in self.top_level(first, last):
            if self.at(i) == ";":
                return i + 1
            if self.at(i) == "{":
                if "(" in seen and "=" not in seen and not {"struct", "class", "enum"} & set(seen):
                    self._function(first, i)
                return self.match[i] + 1
            seen.append(self.at(i))
        return last

    def _function(self, first, brace):
        paren = next(i for i in self.top_level(first, brace) if self.at(i) == "(")
        name = paren
        while self.at(name - 1) == "::" or self.tokens[name - 1].kind == "word" and \
                (name == paren or self.at(name) == "::"):
            name -= 1
        self.function = "".join(t.text for t in self.tokens[name:paren])
        if self.function in (known[0] for known in self.bodies):  # an overload: told apart by what it takes
            takes = [self.at(i) for i in range(paren + 1, self.match[paren]) if self.at(i) not in ("const", "core", "::")]
            self.function += f"({takes[0] if takes else ''})"
        self.bodies.append((self.function, brace, self.match[brace]))
        self._block(brace)

    # ---- statements

    def _block(self, brace):
        i = brace + 1
        while i < self.match[brace]:
            i = self._statement(i)

    def _statement(self, i):
        word = self.at(i)
        if word == "{":
            self._block(i)
            return self.match[i] + 1
        if word == "if":
            return self._if(i)
        if word in ("for", "while", "switch"):
            return self._loop(i, word)
        if word in ("case", "default"):
            while self.at(i) != ":":
                i += 1
            return i + 1
        end = next(k for k in self.top_level(i, len(self.tokens)) if self.at(k) == ";")
        if word == "return":
            self._add("stmt", i, end + 1)
        elif word not in ("break", "continue"):
            self._simple(i, end)
        return end + 1

    def _if(self, i):
        paren = i + 2 if self.at(i + 1) == "constexpr" else i + 1
        if self.at(i + 1) != "constexpr":
            self._condition(paren + 1, self.match[paren])
        i = self._statement(self.match[paren] + 1)
        return self._statement(i + 1) if self.at(i) == "else" else i

    def _loop(self, i, word):
        first, last = i + 2, self.match[i + 1]
        parts = [k for k in self.top_level(first, last) if self.at(k) == ";"]
        if word == "for" and len(parts) == 2:
            self._simple(first, parts[0])
            if parts[0] + 1 < parts[1]:
                self._add("cond", parts[0] + 1, parts[1])
        elif word == "while":
            self._add("cond", first, last)
        return self._statement(last + 1)

    def _condition(self, first, last):
        for k in self.top_level(first, last):
            if self.at(k) == ";":
                self._simple(first, k)
                first = k + 1
        named = [k for k in self.top_level(first, last) if self.at(k) == "="]
        if not named:
            self._add("cond", first, last).edits.extend(self._truths(first, last))
            return
        self._holes(self._unit("value", named[0] + 1, last))
        unit = self._add("declared", first, last, expression=False)
        start, end = self.tokens[first].start, self.tokens[last - 1].end
        unit.edits.append((start, end, f"{self.text[start:end]}; !%s && {self.at(named[0] - 1)}", "never"))

    def _truths(self, first, last):
        start, end = self.tokens[first].start, self.tokens[last - 1].end
        single = not any(self.at(k) in ("&&", "||") and self.binary(k) for k in self.top_level(first, last))
        yield start, end, "false", "never"
        yield start, end, "true", "always"
        if single:
            yield start, end, f"!({self.text[start:end]})", "negated"

    def _simple(self, first, last):
        """An expression statement, or a declaration, whose value may be another one."""
        assigned = [k for k in self.top_level(first, last) if self.at(k) == "="]
        if not self._declares(first, last):
            unit = self._add("stmt", first, last + 1)
            unit.edits.append((unit.start, unit.end, ";", "deleted"))
            return
        constant = "constexpr" in (t.text for t in self.tokens[first:last])
        if constant or not assigned or self.at(assigned[0] + 1) == "{":
            return
        commas = (k for k in self.top_level(assigned[0], last) if self.at(k) == ",")
        last = next(commas, last)        # of several names the first one's
        value = self._unit("value", assigned[0] + 1, last)
        if self.at(assigned[0] - 2) == "&" or self.at(assigned[0] - 1) == "]":
            self._holes(value)           # a reference, or names for parts
        else:
            self._add("value", assigned[0] + 1, last)

    def _declares(self, first, last):
        if self.at(first) in ("const", "auto", "static", "constexpr", "using"):
            return True
        i = first
        if self.tokens[i].kind != "word":
            return False
        while self.tokens[i + 1].text == "::":
            i += 2
        if self.at(i + 1) == "<" and not self.binary(i + 1):
            depth = 0
            while i < last:
                i += 1
                depth += {"<": 1, ">": -1}.get(self.at(i), 0)
                if depth == 0:
                    break
        i += 1
        while self.at(i) in ("*", "&") and not self.binary(i):
            i += 1
        return i < last and self.tokens[i].kind == "word"

    # ---- units

    def _unit(self, kind, first, last):
        return Unit(kind, self.tokens[first].start, self.tokens[last - 1].end, self.function, first=first, last=last)

    def _add(self, kind, first, last, expression=True):
        unit = self._unit(kind, first, last)
        if expression:
            self._holes(unit)
        self.units.append(unit)
        return unit

    def _holes(self, unit):
        """Bodies of the lambdas in the unit: blocks of their own."""
        i = unit.first
        while i < unit.last:
            close = self.match.get(i, i)
            starts = self.at(i) == "[" and self.at(close + 1) in ("(", "{") and \
                self.tokens[i - 1].kind not in ("word", "number") and self.at(i - 1) not in (")", "]")
            starts = starts or self.at(i) == "[" and self.at(i - 1) == "return"
            if starts:
                body = close + 1
                if self.at(body) == "(":
                    body = self.match[body] + 1
                while self.at(body) != "{":
                    body += 1
                unit.holes.append((body, self.match[body] + 1))
                self._block(body)
                i = self.match[body]
            i += 1
