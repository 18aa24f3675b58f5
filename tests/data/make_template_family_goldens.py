#!/usr/bin/env python3
"""Writes template_family_goldens.json: what Python's Jinja2 renders from templates/*.jinja.

The templates are written for these tests with the constructs of well-known chat templates. They are
rendered as `transformers` renders one: sandboxed, trim_blocks and lstrip_blocks on, loop controls,
its own tojson, raise_exception and strftime_now (here with the clock NOW, in UTC).

Needs: pip install jinja2     (made with Jinja2 3.1.6)

    make_template_family_goldens.py OUTPUT.json
"""
import datetime
import json
import pathlib
import sys

import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753868042  # 30 July 2025

CONVERSATIONS = [
    [["user", "Hello"]],
    [["system", "Be brief."], ["user", "  Hi <b>there</b>!\n"]],
    [["system", " You are X.\n"], ["user", "1+1?"], ["assistant", " 2 "], ["user", 'and "more" \\ \n\ttext é 日本 😀?']],
    [["user", "a"], ["assistant", "<think>\nhm\n</think>\n\nanswer"], ["user", "b"], ["assistant", "c </think> d"], ["user", "e"]],
    [["system", ""], ["user", ""], ["assistant", ""], ["user", " "]],
    [["user", "a"], ["user", "b"]],
    [["assistant", "first"], ["user", "x"]],
    [["user", "It's 42"], ["assistant", "HELLO World"]],
    [["user", "q"], ["system", "late"], ["user", "12"]],
    [["developer", "dev text"], ["user", "<|im_end|>{{ 1 }} [INST] </s>"]],
    [["user", "call it"], ["assistant", "calling"], ["tool", '{"r": 1}'], ["tool", "two\nlines"], ["assistant", "done"], ["user", "ok"]],
]


class TemplateRaised(Exception):
    pass


def raise_exception(message):
    raise TemplateRaised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return made


def main():
    out = {"now": NOW, "templates": {}}
    for path in sorted((pathlib.Path(__file__).parent / "templates").glob("*.jinja")):
        template = environment().from_string(path.read_text(encoding="utf-8"))
        cases = []
        for turns in CONVERSATIONS:
            for prompt in (True, False):
                case = {"messages": turns, "prompt": prompt}
                messages = [{"role": role, "content": content} for role, content in turns]
                try:
                    case["text"] = template.render(
                        messages=messages, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>",
                        tools=None, documents=None,
                    )
                except TemplateRaised as raised:
                    case["raised"] = str(raised)
                cases.append(case)
        out["templates"][path.stem] = cases
        print(path.stem, sum("text" in case for case in cases), "texts of", len(cases))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
