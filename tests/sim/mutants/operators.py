"""The changes of automatic mutants: what may be written instead of an operator, a constant or an argument. Each function
yields edits (start, end, replacement, change in words) of one unit; nothing here depends on chance or on line numbers."""

BINARY = {
    "<": ("<=", ">"), "<=": ("<",), ">": (">=", "<"), ">=": (">",), "==": ("!=",), "!=": ("==",),
    "&&": ("||",), "||": ("&&",), "-": ("+",), "+": ("-",), "*": ("/",), "/": ("*",),
    "+=": ("-=",), "-=": ("+=",),
}
WORDS = {"true": "false", "false": "true", "min": "max", "max": "min", "begin": "rbegin", "rbegin": "begin"}
# Functions whose two arguments are of one type and mean different things.
SWAPPED = {"span", "blocks_for", "deadline"}
ITERATORS = {"begin", "rbegin"}


def positions(source, unit):
    """Its tokens, without the bodies of its lambdas."""
    i = unit.first
    while i < unit.last:
        hole = next((h for h in unit.holes if h[0] == i), None)
        if hole:
            i = hole[1]
            continue
        yield i
        i += 1


def makes_text(source, unit):
    """`+` joins strings here; texts are for people and no mutant changes them."""
    words = {source.tokens[i].text for i in positions(source, unit)}
    return any(source.tokens[i].kind == "string" for i in positions(source, unit)) or "to_string" in words


def edits_of(source, unit):
    text_unit = makes_text(source, unit)
    for i in positions(source, unit):
        t = source.tokens[i]
        if t.kind == "sign":
            yield from sign_edits(source, i, text_unit)
        elif t.kind == "number" and t.text in ("0", "1") and constant_may_change(source, i):
            other = "1" if t.text == "0" else "0"
            yield t.start, t.end, other, f"`{t.text}` becomes `{other}`"
        elif t.kind == "word":
            yield from word_edits(source, i)


def sign_edits(source, i, text_unit):
    t = source.tokens[i]
    if t.text == "!" and source.at(i + 1) != "=":
        yield t.start, t.end, "", "`!` goes"
    if t.text not in BINARY or not source.binary(i) or (text_unit and t.text in ("+", "-", "+=", "-=")):
        return
    after = source.tokens[i + 1]
    if t.text in ("+", "-") and after.text == "1":
        yield t.start, after.end, "", f"`{t.text} 1` goes"
        return
    for other in BINARY[t.text]:
        yield t.start, t.end, other, f"`{t.text}` becomes `{other}`"


def word_edits(source, i):
    t = source.tokens[i]
    if t.text in WORDS and t.text not in ITERATORS:
        if t.text in ("min", "max") and source.at(i + 1) not in ("(", "<"):
            return
        yield t.start, t.end, WORDS[t.text], f"`{t.text}` becomes `{WORDS[t.text]}`"
    if t.text in SWAPPED and source.at(i + 1) == "(":
        close = source.match[i + 1]
        commas = [k for k in source.top_level(i + 2, close) if source.at(k) == ","]
        if not commas:
            return
        end = commas[1] if len(commas) > 1 else close
        first = source.text[source.tokens[i + 2].start:source.tokens[commas[0] - 1].end]
        second = source.text[source.tokens[commas[0] + 1].start:source.tokens[end - 1].end]
        yield source.tokens[i + 2].start, source.tokens[end - 1].end, f"{second}, {first}", "arguments swapped"


def constant_may_change(source, i):
    """Not the 1 of `+ 1`, which goes as a whole, and no index."""
    before = source.at(i - 1)
    return not (before in ("+", "-") and source.binary(i - 1)) and before not in ("[", "-", "%")
