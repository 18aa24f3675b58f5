// Methods of strings, dicts and loops, and the global functions.
#include <string.h>

#include <algorithm>
#include <ctime>

#include "gpu/model/chat_template.hpp"
#include "gpu/model/jinja_functions.hpp"

namespace troupe::gpu::jinja {
namespace {

using bound = std::vector<const value*>;

const text* optional_text(guard& g, const value* v, const char* what) {
  return v == nullptr || std::holds_alternative<none>(*v) ? nullptr : &text_of(g, *v, what);
}

const text& required_text(guard& g, const value* v, const char* what) {
  if (v == nullptr) g.fail(std::string(what) + " is missing");
  return text_of(g, *v, what);
}

bool affix(guard& g, const text& self, const value* given, bool front) {
  if (given != nullptr) {
    if (const auto* choices = std::get_if<list_ref>(given)) {
      for (const auto& choice : (*choices)->items) {
        if (affix(g, self, &choice, front)) return true;
      }
      return false;
    }
  }
  const auto& wanted = required_text(g, given, "the text to look for").str();
  return front ? self.str().starts_with(wanted) : self.str().ends_with(wanted);
}

value found_at(guard& g, const text& self, const text& wanted) {
  const auto* begin = self.str().data();
  const void* at =
      ::memmem(begin, self.size(), wanted.str().data(), wanted.size());  // linear at worst
  if (at == nullptr) return std::int64_t{-1};
  return length(
      g,
      make_text(g, self.part(0, static_cast<std::size_t>(static_cast<const char*>(at) - begin))));
}

value split_lines(guard& g, const text& self) {
  std::vector<value> out;
  const std::string_view all = self.str();
  for (std::size_t at = 0; at < all.size();) {
    const auto end = std::min(all.find_first_of("\r\n", at), all.size());
    out.push_back(make_text(g, self.part(at, end)));
    at = all.substr(end).starts_with("\r\n") ? end + 2 : end + 1;
  }
  return make_list(g, std::move(out));
}

bool all_digits(const text& self) {
  return self.size() != 0 && self.str().find_first_not_of("0123456789") == std::string::npos;
}

struct text_method {
  const char* name;
  const char* parameters;
  value (*run)(guard&, const text& self, const bound&);
};

constexpr text_method text_methods[] = {
    {"strip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), true, true));
     }},
    {"lstrip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), true, false));
     }},
    {"rstrip", "chars",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g, stripped(s, optional_text(g, a[0], "chars"), false, true));
     }},
    {"upper", "", [](guard& g, const text& s, const bound&) { return make_text(g, upper(s)); }},
    {"lower", "", [](guard& g, const text& s, const bound&) { return make_text(g, lower(s)); }},
    {"title", "",
     [](guard& g, const text& s, const bound&) { return make_text(g, titled(s, true)); }},
    {"capitalize", "",
     [](guard& g, const text& s, const bound&) { return make_text(g, capitalized(s)); }},
    {"startswith", "prefix",
     [](guard& g, const text& s, const bound& a) { return value(affix(g, s, a[0], true)); }},
    {"endswith", "suffix",
     [](guard& g, const text& s, const bound& a) { return value(affix(g, s, a[0], false)); }},
    {"isdigit", "", [](guard&, const text& s, const bound&) { return value(all_digits(s)); }},
    {"splitlines", "", [](guard& g, const text& s, const bound&) { return split_lines(g, s); }},
    {"find", "sub",
     [](guard& g, const text& s, const bound& a) {
       return found_at(g, s, required_text(g, a[0], "sub"));
     }},
    {"split", "sep maxsplit",
     [](guard& g, const text& s, const bound& a) {
       return split(g, s, optional_text(g, a[0], "sep"),
                    a[1] == nullptr ? -1 : integer(g, *a[1], "maxsplit"));
     }},
    {"replace", "old new count",
     [](guard& g, const text& s, const bound& a) {
       return make_text(g,
                        replaced(g, s, required_text(g, a[0], "old"), required_text(g, a[1], "new"),
                                 a[2] == nullptr ? -1 : integer(g, *a[2], "count")));
     }},
    {"join", "parts",
     [](guard& g, const text& s, const bound& a) {
       if (a[0] == nullptr) g.fail("join: parts is missing");
       return make_text(g, joined(g, elements(g, *a[0])->items, s));
     }},
};

value pair_list(guard& g, const dict& self) {
  std::vector<value> out;
  for (const auto& [key, entry] : self.entries) out.push_back(make_list(g, {key, entry}, true));
  return make_list(g, std::move(out));
}

value dict_method(guard& g, const dict& self, const std::string& name, const arguments& given) {
  if (name == "get") {
    const auto a = bound_arguments(g, name, "key default", given);
    const auto* found = self.find(required_text(g, a[0], "key").str());
    return found != nullptr ? *found : a[1] != nullptr ? *a[1] : value(none{});
  }
  std::vector<value> out;
  if (name == "items") {
    bound_arguments(g, name, "", given);
    return pair_list(g, self);
  }
  if (name != "keys" && name != "values") g.fail("a dict has no method \"" + name + "\"");
  bound_arguments(g, name, "", given);
  for (const auto& [key, entry] : self.entries) out.push_back(name == "keys" ? value(key) : entry);
  return make_list(g, std::move(out));
}

value range(guard& g, const arguments& given) {
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
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(g, std::move(out));
}

value now(guard& g, const arguments& given) {
  const auto a = bound_arguments(g, "strftime_now", "format", given);
  const auto& format = required_text(g, a[0], "format");
  if (format.size() > 200) g.fail("strftime_now: a format of more than 200 bytes");
  const auto time = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char buffer[1024];
  const auto size = std::strftime(buffer, sizeof buffer, format.str().c_str(), &parts);
  return trusted_text(g, {buffer, size});
}

std::vector<std::pair<text_ref, value>> named_entries(guard& g, const arguments& given) {
  std::vector<std::pair<text_ref, value>> out;
  if (given.positional.size() > 1) g.fail("expected one dict and named values");
  for (const auto& start : given.positional) {
    const auto* d = std::get_if<dict_ref>(&start);
    if (d == nullptr) g.fail(std::string("expected a dict, found ") + kind_of(start));
    out = (*d)->entries;
  }
  for (const auto& [name, v] : given.named) {
    out.emplace_back(std::make_shared<const text>(name, true), v);
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
  bound out(names.size(), nullptr);
  for (std::size_t i = 0; i < given.positional.size(); ++i) out[i] = &given.positional[i];
  for (const auto& [name, v] : given.named) {
    std::size_t i = 0;
    while (i < names.size() && names[i] != name) ++i;
    if (i == names.size()) g.fail(what + ": unknown argument \"" + name + "\"");
    if (out[i] != nullptr) g.fail(what + ": argument \"" + name + "\" given twice");
    out[i] = &v;
  }
  return out;
}

value call_method(guard& g, const value& object, const std::string& name, const arguments& given) {
  if (const auto* t = std::get_if<text_ref>(&object)) {
    for (const auto& method : text_methods) {
      if (name == method.name) {
        g.charge((*t)->size());
        return method.run(g, **t, bound_arguments(g, name, method.parameters, given));
      }
    }
  } else if (const auto* d = std::get_if<dict_ref>(&object)) {
    return dict_method(g, **d, name, given);
  } else if (const auto* loop = std::get_if<loop_ref>(&object);
             loop != nullptr && name == "cycle") {
    if (given.positional.empty()) g.fail("loop.cycle without values");
    return given.positional[(*loop)->index0 % given.positional.size()];
  }
  g.fail(std::string(kind_of(object)) + " has no method \"" + name + "\"");
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
      throw template_error(a[0] == nullptr ? std::string("the template refused the messages")
                                           : printed(g, *a[0]).str());
    }
    case function::make_namespace: {
      auto out = std::make_shared<name_space>();
      g.charge(sizeof(name_space) + 64);
      for (const auto& [key, v] : named_entries(g, given))
        out->entries.insert_or_assign(key->str(), v);
      return out;
    }
  }
  g.fail("unknown function");
}

}  // namespace troupe::gpu::jinja
