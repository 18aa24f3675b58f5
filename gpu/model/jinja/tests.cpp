// What may stand after `is`.
#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

template <class... T>
bool is_any(const value& v) {
  return (std::holds_alternative<T>(v) || ...);
}

bool is_bool(const value& v, bool wanted) {
  const auto* b = std::get_if<bool>(&v);
  return b != nullptr && *b == wanted;
}

/// Python's % of a string would format it.
bool leaves(guard& g, const value& v, const value& by, std::int64_t remainder) {
  if (std::holds_alternative<text_ref>(v)) g.fail("the tested value is a string");
  return equal(g, arithmetic(g, "%", v, by), remainder);
}

struct simple_test {
  const char* name;
  bool (*holds)(guard&, const value&);
};

constexpr simple_test simple_tests[] = {
    {"defined", [](guard&, const value& v) { return !is_undefined(v); }},
    {"undefined", [](guard&, const value& v) { return is_undefined(v); }},
    {"none", [](guard&, const value& v) { return is_any<none>(v); }},
    {"string", [](guard&, const value& v) { return is_any<text_ref>(v); }},
    {"mapping", [](guard&, const value& v) { return is_any<dict_ref>(v); }},
    // What has a length and indices: Jinja asks for len() and __getitem__, which undefined has.
    {"sequence",
     [](guard&, const value& v) {
       const auto* l = std::get_if<list_ref>(&v);
       if (l != nullptr) return (*l)->kind != list_kind::generator && (*l)->kind != list_kind::view;
       return is_any<text_ref, dict_ref, undefined>(v);
     }},
    {"iterable",
     [](guard&, const value& v) {
       return is_any<list_ref, text_ref, dict_ref, undefined, loop_ref>(v);
     }},
    // A bool is a number in Python, but no integer here: Jinja's test asks for int and not bool.
    {"number", [](guard&, const value& v) { return is_any<std::int64_t, double, bool>(v); }},
    {"integer", [](guard&, const value& v) { return is_any<std::int64_t>(v); }},
    {"float", [](guard&, const value& v) { return is_any<double>(v); }},
    {"boolean", [](guard&, const value& v) { return is_any<bool>(v); }},
    {"true", [](guard&, const value& v) { return is_bool(v, true); }},
    {"false", [](guard&, const value& v) { return is_bool(v, false); }},
    {"callable", [](guard&, const value& v) { return is_any<callable_ref>(v); }},
    {"lower",
     [](guard& g, const value& v) {
       return truthy(call_method(g, make_text(g, printed(g, v)), "islower", {}));
     }},
    {"upper",
     [](guard& g, const value& v) {
       return truthy(call_method(g, make_text(g, printed(g, v)), "isupper", {}));
     }},
    {"odd", [](guard& g, const value& v) { return leaves(g, v, std::int64_t{2}, 1); }},
    {"even", [](guard& g, const value& v) { return leaves(g, v, std::int64_t{2}, 0); }},
};

// Jinja has several names for most of these, the operators among them: select("==", 1).
struct binary_test {
  const char* names;  ///< between spaces
  bool (*holds)(guard&, const value&, const value&);
};

constexpr binary_test binary_tests[] = {
    {" eq equalto == ", [](guard& g, const value& v, const value& w) { return equal(g, v, w); }},
    {" ne != ", [](guard& g, const value& v, const value& w) { return !equal(g, v, w); }},
    {" lt lessthan < ",
     [](guard& g, const value& v, const value& w) { return order(g, v, w) < 0; }},
    {" le <= ", [](guard& g, const value& v, const value& w) { return order(g, v, w) <= 0; }},
    {" gt greaterthan > ",
     [](guard& g, const value& v, const value& w) { return order(g, v, w) > 0; }},
    {" ge >= ", [](guard& g, const value& v, const value& w) { return order(g, v, w) >= 0; }},
    {" in ", [](guard& g, const value& v, const value& w) { return contains(g, w, v); }},
    {" divisibleby ", [](guard& g, const value& v, const value& w) { return leaves(g, v, w, 0); }},
};

}  // namespace

bool apply_test(guard& g, const std::string& name, const value& input, const arguments& given) {
  g.step();
  for (const auto& test : simple_tests) {
    if (name != test.name) continue;
    bound_arguments(g, name, "", given);
    return test.holds(g, input);
  }
  for (const auto& test : binary_tests) {
    // An empty name would be found between any two blanks.
    if (name.empty() ||
        std::string_view(test.names).find(" " + name + " ") == std::string_view::npos)
      continue;
    const auto a = bound_arguments(g, name, "other", given);
    if (a[0] == nullptr) g.fail("test \"" + name + "\" needs an argument");
    return test.holds(g, input, *a[0]);
  }
  g.fail("unknown test \"" + name.substr(0, 40) + "\"");
}

}  // namespace troupe::gpu::jinja
