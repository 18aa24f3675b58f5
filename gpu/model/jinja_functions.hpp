// The filters, tests, methods and global functions of the template engine, by name. Each fails
// through the guard for an unknown name, for too many or unknown arguments, and for kinds of values
// it cannot work on.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "gpu/model/jinja_value.hpp"

namespace troupe::gpu::jinja {

struct arguments {
  std::vector<value> positional;
  std::vector<std::pair<std::string, value>> named;
};

/// The arguments in the order of `parameters` (names between spaces); nullptr for one that was not
/// given.
std::vector<const value*> bound_arguments(guard&, const std::string& what,
                                          std::string_view parameters, const arguments&);

value apply_filter(guard&, const std::string& name, const value& input, const arguments&);
bool apply_test(guard&, const std::string& name, const value& input, const arguments&);
value call_method(guard&, const value& object, const std::string& name, const arguments&);
value call_function(guard&, function, const arguments&);
/// +, -, *, /, //, %, ** as Python computes them, with 64-bit integers.
value arithmetic(guard&, const std::string& op, const value& left, const value& right);

// Text operations shared by filters and methods; each keeps the trust of every character.
text upper(const text&);
text lower(const text&);
text capitalized(const text&);
/// `after_any` true: a letter after anything but a letter or digit is upper (str.title); false:
/// only after white space and opening brackets (the title filter).
text titled(const text&, bool after_any);
/// `characters` nullptr: white space.
text stripped(const text&, const text* characters, bool left, bool right);
text replaced(guard&, const text&, const text& old, const text& fresh, std::int64_t count);
value split(guard&, const text&, const text* separator, std::int64_t most);
text joined(guard&, const std::vector<value>&, const text& separator);

}  // namespace troupe::gpu::jinja
