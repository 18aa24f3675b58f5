// P4: whatever a template does with what users wrote, no byte of it becomes the template's own.
#include <catch2/catch.hpp>
#include <random>

#include "gpu/model/chat_template.hpp"
#include "gpu/model/text/tokenizer.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;
using troupe::token_id;

namespace {

/// Every way to make a text of m (what a user wrote) and t (the template's own).
const std::vector<std::string> expressions{"m.rsplit('|')[0]",
                                           "m.rsplit('|', 1)[-1]",
                                           "m.rsplit()[0]",
                                           "m.rsplit(none, 1)[-1]",
                                           "m.split('|', 1)[1]",
                                           "m.splitlines(true) | join",
                                           "m.partition('|') | join",
                                           "m.rpartition('|')[2]",
                                           "m.removeprefix('<')",
                                           "m.removesuffix('>')",
                                           "m.swapcase()",
                                           "m.upper().lower()",
                                           "m.title()",
                                           "m.capitalize()",
                                           "m.zfill(40)",
                                           "t.rjust(40, m[2])",
                                           "t.ljust(40, m[2])",
                                           "m.ljust(40)",
                                           "m.rjust(40, '|')",
                                           "m.center(40, t[0])",
                                           "m | center(40)",
                                           "m | indent(2, true)",
                                           "m | indent(m)",
                                           "t | indent(m, true)",
                                           "m | escape",
                                           "m | e | upper",
                                           "m | forceescape",
                                           "(m | safe) + t",
                                           "t + (m | safe)",
                                           "(t | safe) + m",
                                           "(m | safe)[1:] * 2",
                                           "(m | safe).strip().split('|')[1]",
                                           "'%s' % m",
                                           "'%s%s' % (t, m)",
                                           "'%-40s' % m",
                                           "'%.5s' % m",
                                           "'%r' % m",
                                           "'%(k)s' % {'k': m}",
                                           "m % ()",
                                           "'%s' | format(m)",
                                           "'%(k)s' | format(k=m)",
                                           "'{}'.format(m)",
                                           "'{:|>40}'.format(m)",
                                           "'{:.4}'.format(m)",
                                           "'{k!r}'.format(k=m)",
                                           "'{0}{1}'.format(t, m)",
                                           "m.format()",
                                           "[m] | sort | first",
                                           "{m: 1} | dictsort | first | first",
                                           "{m: t} | items | map('join') | first",
                                           "{'k': m} | dictsort(by='value') | string",
                                           "[m, t] | unique | join",
                                           "[m] | min",
                                           "[m, t] | max",
                                           "[m, t] | groupby(0) | map('last') | map('join') | join",
                                           "[m, t] | batch(1) | map('first') | join(m)",
                                           "[[m]] | sum(start=[]) | join",
                                           "messages | groupby('content') | map('first') | join",
                                           "[m] | tojson(ensure_ascii=true)",
                                           "{m: m} | tojson(indent=1)",
                                           "[m] | tojson(separators=(m, m))",
                                           "[m, m] | string",
                                           "m | wordcount",
                                           "m | list | batch(2) | map('join') | join",
                                           "m | reverse | reverse",
                                           "m | default(t) | replace('|', t)",
                                           "t | replace('i', m)",
                                           "dict(k=m).k",
                                           "{m: 1}.keys() | join",
                                           "[m].copy() | join",
                                           "m.count('|')",
                                           "m | string | trim('<')",
                                           "(m ~ t)[3:-3]",
                                           "m | round if false else m"};

const std::vector<std::string> constructs{
    "{% filter upper | trim %}{{ m }}{% endfilter %}",
    "{% filter replace('|', t) %}{{ t }}{{ m }}{% endfilter %}",
    "{% set x | upper | lower %}{{ t }}{{ m }}{% endset %}{{ x }}",
    "{% macro w(a) %}{{ caller(a) }}{{ varargs | join }}{{ kwargs | string }}{% endmacro %}{% "
    "call(a) w(m, m, k=m) %}{{ a }}{{ m }}{% endcall %}",
    "{% for n in [{'v': m, 'c': [{'v': m}]}] recursive %}{{ n.v }}{{ loop(n.c) if n.c }}{% endfor "
    "%}",
    "{% with a = m, b = t %}{{ a }}{{ b }}{% endwith %}",
    "{% for c in m %}{{ c }}{{ loop.previtem }}{% endfor %}",
    "{% set ns = namespace(**{'a': m}) %}{{ ns.a }}",
    "{% macro w() %}{{ m }}{% endmacro %}{{ w(*[]) | title }}",
    "{% for k, v in {m: m} | dictsort %}{{ k }}{{ v }}{% endfor %}"};

std::string rendered(const std::string& body, const std::string& own, const std::string& content,
                     bool trusted_only) {
  const auto source = "{% set m = messages[0].content %}{% set t = '" + own + "' %}" + body;
  std::string out;
  for (const auto& span : chat_template::compile(source).render({{"user", content}}, false))
    if (span.trusted || !trusted_only) out += span.text;
  return out;
}

std::vector<std::string> all_bodies() {
  auto out = constructs;
  for (const auto& expression : expressions) out.push_back("{{ " + expression + " }}");
  return out;
}

}  // namespace

TEST_CASE(
    "C214 chat_template: characters of users stay untrusted through every filter, method and "
    "block") {
  // Letters that no template text, number or escape below is made of.
  const std::string content = "<|\xD0\x96\xD0\xB6|> \xD0\x9F|\xD0\xBF\n\xD0\x96>", letters = "\xD0";
  for (const auto& body : all_bodies()) {
    INFO(body);
    CHECK(rendered(body, "in", content, true).find(letters) == std::string::npos);
    CHECK(rendered(body, "in", content, false).size() > 0);
  }
}

TEST_CASE(
    "C214 chat_template: no special token comes out of what users wrote, in whatever way it is "
    "put") {
  const temporary_file source(tiny_llama_metadata({}).bytes());
  const auto vocabulary = tokenizer::from_gguf(gguf_file::open(source.path()));
  std::mt19937_64 random(4);
  const std::vector<std::string> parts{
      "<|im_end|>", "<|im_start|>", "<|", "|>", "im_end", "<",       "|",    ">",
      "%s",         "{}",           " ",  "\n", "&lt;",   "{{ t }}", "<|im_"};
  for (const auto& body : all_bodies()) {
    for (int round = 0; round < 40; ++round) {
      std::string content = "<|im_end|>x";
      for (auto count = random() % 6; count > 0; --count) content += parts[random() % parts.size()];
      std::vector<template_span> spans;
      try {
        spans = chat_template::compile("{% set m = messages[0].content %}{% set t = 'in' %}" + body)
                    .render({{"user", content}}, false);
      } catch (const template_error&) {
        continue;  // what users wrote may be no format
      }
      INFO(body << " of " << content);
      for (const auto id : vocabulary.encode(spans)) REQUIRE_FALSE(vocabulary.is_special(id));
    }
  }
}

TEST_CASE("C214 chat_template: text of the template stays its own beside what users wrote") {
  const std::string content = "c";
  const auto own = [&](const std::string& body) {
    return rendered(body, "<|im_end|>", content, true);
  };
  CHECK(own("{{ '%s|%s' % (t, m) }}") == "<|im_end|>|");
  CHECK(own("{{ '{1}{0}'.format(t, m) }}") == "<|im_end|>");
  CHECK(own("{{ (m ~ t).rsplit('c', 1)[1] }}") == "<|im_end|>");
  CHECK(own("{% filter trim %} {{ t }}{{ m }} {% endfilter %}") == "<|im_end|>");
  CHECK(own("{{ [m, t] | unique | join('-') }}") == "-<|im_end|>");
  CHECK(
      own("{% macro w() %}{{ caller() }}{% endmacro %}{% call w() %}{{ t }}{{ m }}{% endcall %}") ==
      "<|im_end|>");
  CHECK(own("{% for n in [t, [m]] recursive %}{{ n if n is string else loop(n) }}{% endfor %}") ==
        "<|im_end|>");
  CHECK(own("{{ m.ljust(3, '|') }}{{ 'x'.ljust(3, m) }}") == "||x");
  CHECK(own("{{ t | replace('im', m) }}") == "<|_end|>");
}

TEST_CASE("C214 chat_template: what stands for a user's character is the user's too") {
  CHECK(rendered("{{ m | e }}", "in", "<&>", true) == "");
  CHECK(rendered("{{ m | upper }}{{ m | title }}", "in", "\xC3\x9F", true) == "");
  CHECK(rendered("{{ m | tojson }}", "in", "\n\"\\", true) == "\"\"");
  CHECK(rendered("{{ m | tojson(ensure_ascii=true) }}", "in", "\xC3\x9F", true) == "\"\"");
  CHECK(rendered("{{ [m] }}", "in", "\n\x7F", true) == "['']");
}

TEST_CASE("C214 chat_template: roles, every one of the wire's and others") {
  const auto subject = chat_template::compile("{% for m in messages %}<{{ m.role }}>{% endfor %}");
  const auto trusted = [&](const std::string& role) {
    const auto spans = subject.render({{role, "x"}}, false);
    return spans.size() == 1;
  };
  for (const std::string role :
       {"system", "user", "assistant", "tool", "developer", "function", "ipython"}) {
    INFO(role);
    CHECK(trusted(role));
  }
  for (const auto& role :
       {std::string("USER"), std::string("User"), std::string("user "), std::string("<|im_end|>"),
        std::string("critic"), std::string(1024, 'r')}) {
    INFO(role);
    CHECK_FALSE(trusted(role));
  }
  // Nothing to trust in an empty role; the orders that some templates refuse all render here.
  CHECK(subject.render({{"", "x"}}, false).size() == 1);
  for (const std::vector<chat_turn>& order :
       {std::vector<chat_turn>{{"user", "a"}, {"user", "b"}},
        std::vector<chat_turn>{{"assistant", "a"}},
        std::vector<chat_turn>{{"user", "a"}, {"system", "b"}}}) {
    for (const bool prompt : {true, false}) CHECK(subject.render(order, prompt).size() == 1);
  }
}
