#!/usr/bin/env python3
"""Writes chat_template_goldens.json: templates with what Python's Jinja2 renders for them.

Needs: pip install jinja2

    make_chat_template_goldens.py OUTPUT.json
"""
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateRaised(Exception):
    pass


def raise_exception(message):
    raise TemplateRaised(message)


def tojson(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


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
]

EXPRESSIONS = """
1 + 2 * 3 - 4 / 2
7 // 2
-7 // 2
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1_000
1e3
1.5e-7
123456789012345678.0
0.1 + 0.2
1e16
1e22
10 / 5
3.0
true
none
[1, 'a', none, true, 2.5, "it's", 'q"q', '\\n\\x01']
(1, 'a')
(1,)
()
{'a': 1, 'b': [2]}
{'a': 1}['a']
{'a': {'b': {'c': 7}}}.a.b.c
[1, 2, 3][-1]
[1, 2, 3][5] is defined
[1, 2, 3].1
'abc'[1]
'abc'[-1]
'naïve日本'[2:-1]
'abcdef'[::2]
'abcdef'[::-1]
'abcdef'[4:1:-1]
'abcdef'[-100:100]
'abcdef'[5:2]
[1,2,3,4][1:]
[1,2,3,4][:-1]
[1,2,3,4][::-2]
'a' ~ 1 ~ none ~ true ~ 2.0
'a' 'b' "c"
'a' * 3
[1] * 3
3 * 'ab'
'a' + 'b'
[1] + [2]
1 < 2 < 3
1 < 2 > 3
1 == 1.0
'a' < 'b'
'a' in 'cat'
'z' not in 'cat'
1 in [1, 2]
'k' in {'k': 1}
'' in 'x'
not 1 == 2
not true or true
true and 0
0 or 'x'
1 and 2
'yes' if true else 'no'
'yes' if false
'a' if false else 'b' if false else 'c'
[] == []
{'a': 1} == {'a': 1}
none == none
missing == missing_too
missing is undefined
missing is defined
missing
missing | default('d')
'' | default('d')
'' | default('d', true)
'' | d('d', boolean=true)
none | default('d')
missing | length
missing | upper
missing in ['x']
'  pad '.strip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('xy')
'xyaxy'.rstrip('yx')
' \\t\\n\\u00a0a\\u3000'.strip()
' a b  c '.split()
' a b  c '.split(none, 1)
'a,b,,c'.split(',')
'a,b,,c'.split(',', 2)
'a</t>b</t>c'.split('</t>')[-1]
''.split()
''.split(',')
'abc'.startswith('ab')
'abc'.startswith(('x', 'a'))
'abc'.endswith('bc')
'aBc'.upper() + 'aBc'.lower()
"they're bill's friends".title()
"they're bill's-friends (ok)" | title
'hELLO wORLD'.capitalize()
'éCOLE' | capitalize
'ÀÉ straße'.lower()
'aaa'.replace('a', 'b', 2)
'aaa' | replace('a', 'b')
'abc'.replace('', '-')
'abc' | replace('b', '')
', '.join(['a', 'b'])
['a', 1, none] | join('-')
[1, 2] | join
[{'a': 1}, {'a': 2}] | join('+', attribute='a')
'abc'.find('c')
'日本'.find('本')
'abc'.find('x')
'12'.isdigit()
'a\\nb\\r\\nc\\n'.splitlines()
{'a': 1, 'b': 2}.keys() | list
{'a': 1, 'b': 2}.values() | list
{'a': 1, 'b': 2}.items() | list
{'a': 1} | items | list
{'a': 1}.get('a')
{'a': 1}.get('b')
{'a': 1}.get('b', 'c')
'abc' | first
'abc' | last
[1, 2, 3] | first
[] | first is defined
[3, 1, 2] | sort
['b', 'A', 'c'] | sort
[3, 1, 2] | sort(reverse=true)
[{'n': 2}, {'n': 1}] | sort(attribute='n') | map(attribute='n') | list
[1, 2, 3] | reverse | list
'abc' | reverse
'5' | int + 1
'x' | int
'x' | int(7)
' 12 ' | int
'3.9' | int
3.9 | int
'2.5' | float
3 | string + 'x'
'abc' | list
'a\\nb' | indent
'a\\n\\nb' | indent(2)
'a\\nb' | indent(2, true)
-3 | abs
(-3) | abs
[1, 2, 3] | length
'日本' | count
' x ' | trim
'xxaxx' | trim('x')
5 | upper
['a', 'b'] | map('upper') | join
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('odd') | list
[0, 1, '', 'a'] | select | list
[1, 2, 3, 4] | select('gt', 2) | list
[{'a': 1}, {}] | map(attribute='a', default=0) | list
[{'a': 1}, {'a': 0}] | selectattr('a') | list
[{'a': 1}, {'b': 0}] | selectattr('a', 'defined') | list
{'b': 1, 'a': [1, 'x\\n"é/<>&', none, true, 1.5]} | tojson
{} | tojson
[] | tojson
[[], {}] | tojson(indent=2)
{'a': [1, {'b': 2}]} | tojson(indent=4)
'\\u00e9\\x7f\\u2028' | tojson
'a' is string and 1 is number and [] is iterable and {} is mapping
[] is sequence
'x' is mapping
1 is integer
1.0 is float
true is boolean
true is true
1 is true
false is false
3 is odd
4 is even
9 is divisibleby 3
9 is divisibleby(2)
1 is eq 1
1 is in [1, 2]
1 is not in [1, 2]
1 is not none
'a' is not string
range is callable
range(5) | list
range(1, 10, 3) | list
range(3, 0, -1) | list
dict(a=1, b='x')
namespace(a=1).a
namespace(a=1).b is defined
messages[0].role.upper()
messages[1].content | trim | length
messages | length
messages[-1]['content'][:5]
messages[0].missing is defined
messages[0].missing
(messages | first).role
messages[1]['content'].strip().split(' ')[0]
(1, 2) == (1, 2)
"\\"q\\" \\'s\\' \\\\ \\d \\t|"
1 if 2 is even else 3
not missing
-1 | string
'%' ~ 'x'
[[1, 2], [3]] | map('length') | list
{'a': none}.a is none
{'trailing': 1,}
[1, 2,]
loop is defined
true if 'a' == 'a' and 'b' != 'c'
'a'.b is defined
1.5 == 1.5
10 // 0.3
3 > 2 >= 2
""".strip().split("\n")

# What must be refused: rendering raises in Python too.
REFUSED = [
    "{{ 1 + 'a' }}", "{{ missing.attribute }}", "{{ missing + 1 }}", "{{ missing['x'] }}", "{{ 1 / 0 }}",
    "{{ 1 | nosuchfilter }}", "{{ 1 is nosuchtest }}", "{{ nosuchfunction() }}", "{{ 'a'.nosuchmethod() }}",
    "{% for i in 5 %}{% endfor %}", "{% set a, b = [1] %}", "{{ [1] < 'a' }}", "{{ raise_exception('no') }}",
    "{% if %}", "{% if true %}", "{% for %}", "{{ ", "{% endif %}", "{{ 'a }}", "{{ (1 }}", "{{ 1 2 }}", "{% nosuchtag %}",
    "{# open", "{{ a b }}", "{% set %}", "{{ } }}", "{% if true %}{% endfor %}", "{{ 1 if }}", "{{ | upper }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{{ [1, 2 }}", "{% raw %}x", "{{ none + 1 }}", "{{ @ }}",
    "{% break %}", "{{ messages[0].content + 1 }}", "{{ range(1000000) | list }}", "{{ none.x.y }}",
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
