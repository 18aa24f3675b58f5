#!/usr/bin/env python3
"""Writes chat_template_goldens.json: templates, and the expressions of chat_template_expressions.txt, with
what Python's Jinja2 renders for them.

Needs: pip install jinja2

    make_chat_template_goldens.py OUTPUT.json
"""
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateRaised(Exception):
    pass


def raise_exception(message):
    raise TemplateRaised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception

CHAT = [
    ["system", "Be brief."],
    ["user", "  Hello, <b>world</b>!\n"],
    ["assistant", "<think>hm</think>\n\nHi. It's \"fine\" \\ ok\ttab"],
    ["user", "naïve 日本語 😀 1 2 3"],
]

# Whole templates, in the manner of those found in model files.
WHOLE = [
    # ChatML with a default system turn
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    # headers around each role, the start token once
    "{{- bos_token }}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = '' %}\n{%- endif %}\n{%- if tools is not none %}\n  {{- 'tools' }}\n{%- endif %}\n{{- '<|header|>system<|/header|>\\n\\n' + system_message + '<|eot|>' }}\n{%- for message in messages %}\n    {{- '<|header|>' + message['role'] + '<|/header|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|header|>assistant<|/header|>\\n\\n' }}\n{%- endif %}\n",
    # alternation enforced
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    # thinking parts dropped, a namespace that remembers
    "{%- set ns = namespace(last_user=-1, seen=false) -%}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if not ns.seen and message.role == \"user\" and message.content is string %}\n        {%- set ns.seen = true %}\n        {%- set ns.last_user = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for message in messages %}\n    {%- set content = message.content %}\n    {%- if message.role == 'assistant' and '</think>' in content %}\n        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n    {%- endif %}\n    {{- '<|' ~ message.role ~ '|>' ~ content ~ (' (last)' if loop.index0 == ns.last_user else '') ~ '\\n' }}\n{%- endfor %}",
    # a macro, a filter chain and comments
    "{# turns #}\n{% macro turn(role, content, end='<end>') %}\n<{{ role }}>\n{{ content | trim }}{{ end }}\n{% endmacro %}\n{% for m in messages if m.role != 'system' %}\n  {% if not loop.last %}\n{{ turn(m.role, m.content) }}\n  {% else %}\n{{ turn(m.role | upper, m.content, end='<last>') }}\n  {% endif %}\n{% else %}\nnobody\n{% endfor %}\n{# done -#}\n\n  tail\n",
    "{% for m in messages %}{{ m | tojson }}\n{% endfor %}{{ messages | map(attribute='role') | join(', ') }}",
    "{{ messages | tojson(indent=2) }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | list | length }}",
    "{%- for m in messages -%}\n{%- if m.role == 'system' %}{% continue %}{% endif -%}\n{{ m.role }};{%- if loop.index == 3 %}{% break %}{% endif -%}\n{%- endfor %}",
    "{% set x %}\n  <{{ messages[0].content }}>\n{% endset %}\n{{ x | trim }}|{{ x | length }}",
    "{% raw %}\n{{ not rendered }} {% if %}\n{% endraw %}\nafter\n\n",
    "   {%+ if true %} kept {%+ endif %}\n  {% if true +%}\nnewline kept{% endif %}\n",
    "a\n  {%- if true %}\n b \n{% endif -%}  \n c {{- ' d ' -}} e",
    "line1\r\n{% if true %}\r\nline2\r\n{% endif %}\r\nend\r\n",
    "{% for a, b in {'x': 1, 'y': 'two'}.items() %}{{ a }}={{ b }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for c in 'aé日' %}{{ loop.index }}{{ c }}{{ loop.cycle('-', '+') }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% if undefined_thing %}a{% elif undefined_thing is defined %}b{% elif none is none %}c{% else %}d{% endif %}",
    "{% macro a(n) %}{{ n }}{% if n > 0 %}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(5) }}",
    "{% set a, b = 1, [2, 3] %}{{ a }}{{ b }}{% set ns = namespace() %}{% set ns.list = [] %}{% for i in range(3) %}{% set ns.list = ns.list + [i] %}{% endfor %}{{ ns.list }}",
    "{% for i in range(2) %}{% for j in range(2) %}{{ loop.depth }}{{ loop.revindex }}{% endfor %}{{ loop.revindex0 }}{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}{% for i in none_such %}x{% else %}empty{% endfor %}",
    "{% macro outer() %}{{ top }}{{ i }}{% endmacro %}{% set top = 'T' %}{% for i in [1] %}{{ outer() }}{% endfor %}",
    # what a macro sees of where it was made, and what it takes
    "{% for i in [1, 2] %}{% macro m(z) %}{{ i }}{{ z }}{{ loop is defined }}{% endmacro %}{{ m(3) }}{% endfor %}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4, c=5) }}{{ m(*[1, 2], **{'d': 6}) }}",
    "{% macro m(x) %}<{{ caller(x) if caller is defined else 'alone' }}>{% endmacro %}{{ m(1) }}{% call(u) m(2) %}{{ u }}{{ messages[0].role }}{% endcall %}",
    "{% macro m(x, caller=none) %}{{ caller is none }}{% endmacro %}{{ m(1) }}{% call m(1) %}{% endcall %}{{ m }}",
    "{% macro a() %}[{{ caller() }}]{% endmacro %}{% macro b() %}{% set given = caller %}({% call a() %}{{ given() }}!{% endcall %}){% endmacro %}{% for i in [7] %}{% call b() %}{{ i }}{% endcall %}{% endfor %}",
    # recursive loops
    "{% for n in [1, [2, [3]], []] recursive %}{% if n is iterable %}({{ loop(n) }}){% else %}{{ n }}:{{ loop.depth }}{{ loop.depth0 }}{% endif %}{% else %}none{% endfor %}",
    "{% set k = 'k' %}{% for n in [{'c': [{'c': []}]}] recursive %}{{ k }}{% set k = 'l' %}{{ loop(n.c) }}{{ k }}{% endfor %}",
    # blocks
    "{% filter upper | replace('A', '<') %}abc {{ '&' }}{% endfilter %}{% set x | trim | upper %} a {% endset %}[{{ x }}]",
    "{% for i in [1, 2] %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}q{% endfilter %}{% endfor %}",
    "{% for i in [1, 2] %}{% set x %}{% if i == 1 %}{% break %}{% endif %}q{% endset %}{{ x }}{% endfor %}{{ x }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set a = 3 %}{{ a }}{% endwith %}{{ a }}",
    "{% for i in [] %}{% else %}{% set q = 1 %}{{ q }}{% endfor %}{{ q is defined }}",
    "{% set d = {1: 'a', true: 'b', 'x': {2.5: none}} %}{{ d }}{{ d[1.0] }}{{ d | tojson }}{{ 1 in d }}{{ d.get(1) }}{{ d.get(7, 'q') }}{% for k in d %}{{ k }}{% endfor %}",
    # generators are true even when empty, and are read once
    "{% set g = [1, 2, 3] | select('gt', 1) %}{% if g %}y{% endif %}{{ g is sequence }}{{ g | first }}{{ g | list }}{{ g | list }}{{ [] | select and 'true' }}",
    "{{ none | map('upper') | list }}{{ 0 | select | list }}{{ missing | selectattr('a') | list }}{{ (range(0) or 'e') }}{{ {}.items() or 'e' }}",
    "{% set s = '<b>' | safe %}{{ s + '<' }}{{ '<' + s }}{{ s ~ '<' }}{{ s.upper() + '<' }}{{ s[1:] + '&' }}{{ ('<' | e) * 2 + '<' }}{{ [s, '<'] | join('<') }}",
]

EXPRESSIONS = pathlib.Path(__file__).with_name("chat_template_expressions.txt").read_text(encoding="utf-8").splitlines()

# What must be refused: rendering raises in Python too.
REFUSED = [
    "{{ 1 + 'a' }}", "{{ missing.attribute }}", "{{ missing + 1 }}", "{{ missing['x'] }}", "{{ 1 / 0 }}",
    "{{ 1 | nosuchfilter }}", "{{ 1 is nosuchtest }}", "{{ nosuchfunction() }}", "{{ 'a'.nosuchmethod() }}",
    "{% for i in 5 %}{% endfor %}", "{% set a, b = [1] %}", "{{ [1] < 'a' }}", "{{ raise_exception('no') }}",
    "{% if %}", "{% if true %}", "{% for %}", "{{ ", "{% endif %}", "{{ 'a }}", "{{ (1 }}", "{{ 1 2 }}", "{% nosuchtag %}",
    "{# open", "{{ a b }}", "{% set %}", "{{ } }}", "{% if true %}{% endfor %}", "{{ 1 if }}", "{{ | upper }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{{ [1, 2 }}", "{% raw %}x", "{{ none + 1 }}", "{{ @ }}",
    "{% break %}", "{{ messages[0].content + 1 }}", "{{ range(1000000) | list }}", "{{ none.x.y }}",
    "{{ '%d' % 'a' }}", "{{ '%s %s' % ('a',) }}", "{{ '%s' % (1, 2) }}", "{{ '%y' % 1 }}", "{{ '%' % 1 }}", "{{ '{' | string.format(1) }}",
    "{{ '{}'.format() }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{:d}'.format('a') }}", "{{ '{} {0}'.format(1) }}", "{{ '{x}'.format(1) }}",
    "{{ 'a'.rsplit('') }}", "{{ 'a'.index('b') }}", "{{ [1].index(2) }}", "{{ [1].append(2) }}", "{{ {'a': 1}.update(b=2) }}", "{{ {[]: 1} }}",
    "{% for i in [1] %}{{ loop([]) }}{% endfor %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}",
    "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{% call b() %}{% endcall %}",
    "{% call 1 %}{% endcall %}", "{% filter %}{% endfilter %}", "{% filter upper %}", "{% call m() %}", "{% with a = 1 %}", "{% with a %}{% endwith %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% for i in [1] %}{% call m() %}{% break %}{% endcall %}{% endfor %}", "{{ [1, 2] | select | length }}",
    "{{ ([1] | map('string')) + [2] }}", "{{ {'a': 1} | join(',', 5, 6) }}", "{{ 5 | dictsort }}", "{{ [1, 'a'] | sort }}", "{{ [] | batch(0) | list | first + 1 }}", "{{ 1 | indent }}",
]


def render(source, chat, prompt):
    messages = [{"role": role, "content": content} for role, content in chat]
    template = environment.from_string(source)
    return template.render(
        messages=messages, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", tools=None, documents=None
    )


def main():
    cases = []
    for source in WHOLE:
        for chat, prompt in ((CHAT, True), (CHAT, False), (CHAT[1:], True), (CHAT[1:2], True)):
            case = {"template": source, "messages": chat, "prompt": prompt}
            try:
                case["text"] = render(source, chat, prompt)
            except TemplateRaised as raised:
                case["raised"] = str(raised)
            cases.append(case)
    for expression in EXPRESSIONS:
        source = "{{ " + expression + " }}"
        cases.append({"template": source, "messages": CHAT, "prompt": False, "text": render(source, CHAT, False)})
    for source in REFUSED:
        try:
            render(source, CHAT, False)
        except Exception:
            cases.append({"template": source, "messages": CHAT, "prompt": False, "refused": True})
        else:
            raise SystemExit("not refused: " + source)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(cases, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
