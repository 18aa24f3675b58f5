// The global functions, and how arguments find their parameters.
#include <algorithm>
#include <ctime>

#include "gpu/model/chat_template.hpp"
#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

/// Made at once: it is short by its limit.
value range(guard& g, const arguments& given) {
  // That of Jinja's sandbox (MAX_RANGE).
  constexpr std::int64_t range_max = 100'000;
  const auto a = bound_arguments(g, "range", "start stop step", given);
  if (a[0] == nullptr) g.fail("range: stop is missing");
  const auto first = integer(g, *a[0], "range");
  const auto start = a[1] == nullptr ? 0 : first;
  const auto stop = a[1] == nullptr ? first : integer(g, *a[1], "range");
  const auto step = a[2] == nullptr ? 1 : integer(g, *a[2], "range");
  if (step == 0) g.fail("range: step is 0");
  std::vector<value> out;
  for (auto i = start; step > 0 ? i < stop : i > stop;) {
    if (out.size() == range_max)
      g.fail("range: more than " + std::to_string(range_max) + " elements");
    out.emplace_back(i);
    // Past the last integer nothing lies before `stop`.
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(g, std::move(out), list_kind::range);
}

value now(guard& g, const arguments& given) {
  const auto a = bound_arguments(g, "strftime_now", "format", given);
  if (a[0] == nullptr) g.fail("strftime_now: format is missing");
  const auto& format = text_of(g, *a[0], "format");
  if (format.size() > 200) g.fail("strftime_now: a format of more than 200 bytes");
  std::tm parts{};
  if (::gmtime_r(&g.now, &parts) == nullptr) g.fail("strftime_now: a time out of range");
  char buffer[1024];
  // 0 where it does not fit the buffer: the text is empty then, as for an empty format.
  const auto size = std::strftime(buffer, sizeof buffer, format.str().c_str(), &parts);
  return trusted_text(g, {buffer, size});
}

/// The arguments of Python's dict(): an optional dict, then names.
std::vector<std::pair<value, value>> named_entries(guard& g, const arguments& given) {
  std::vector<std::pair<value, value>> out;
  if (given.positional.size() > 1) g.fail("expected one dict and named values");
  for (const auto& start : given.positional) {
    const auto* d = std::get_if<dict_ref>(&start);
    if (d == nullptr) g.fail(std::string("expected a dict, found ") + kind_of(start));
    out = (*d)->entries;
  }
  for (const auto& [name, v] : given.named) {
    out.emplace_back(trusted_text(g, name), v);
  }
  return out;
}

}  // namespace

bound bound_arguments(guard& g, const std::string& what, std::string_view parameters,
                      const arguments& given) {
  std::vector<std::string_view> names;
  while (!parameters.empty()) {
    const auto space = std::min(parameters.find(' '), parameters.size());
    names.push_back(parameters.substr(0, space));
    parameters.remove_prefix(std::min(space + 1, parameters.size()));
  }
  if (given.positional.size() > names.size()) {
    g.fail(what + ": " + std::to_string(given.positional.size()) + " arguments, at most " +
           std::to_string(names.size()));
  }
  // In the order of the parameters; named ones go where their name stands.
  bound out(names.size(), nullptr);
  for (std::size_t i = 0; i < given.positional.size(); ++i) out[i] = &given.positional[i];
  for (const auto& [name, v] : given.named) {
    std::size_t i = 0;
    // A handful of parameters at most.
    while (i < names.size() && names[i] != name) ++i;
    if (i == names.size()) g.fail(what + ": unknown argument \"" + name + "\"");
    if (out[i] != nullptr) g.fail(what + ": argument \"" + name + "\" given twice");
    out[i] = &v;
  }
  return out;
}

value call_function(guard& g, function which, const arguments& given) {
  switch (which) {
    case function::range:
      return range(g, given);
    case function::strftime_now:
      return now(g, given);
    case function::make_dict:
      return make_dict(g, named_entries(g, given));
    case function::raise_exception: {
      const auto a = bound_arguments(g, "raise_exception", "message", given);
      // Not through the guard: the message is the template's, and gets no line and column of ours.
      throw template_error(a[0] == nullptr ? std::string("the template refused the messages")
                                           : printed(g, *a[0]).str());
    }
    case function::make_namespace: {
      auto out = std::make_shared<name_space>();
      g.charge(sizeof(name_space) + 64);
      for (const auto& [key, v] : named_entries(g, given))
        out->entries.insert_or_assign(text_of(g, key, "a namespace's name").str(), v);
      return out;
    }
  }
  g.fail("unknown function");
}

}  // namespace troupe::gpu::jinja
