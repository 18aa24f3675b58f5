// Text operations of the template engine. They work on characters and copy runs, so trust follows
// every byte.
#include <string.h>
#include <utf8proc.h>

#include "gpu/model/jinja_functions.hpp"

namespace troupe::gpu::jinja {
namespace {

char32_t to_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool is_letter(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// What Python's str.isspace holds for.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

/// `change(code point)` for every character; ill-formed bytes stay as they are.
template <class F>
text mapped(const text& in, F change) {
  text out;
  std::string bytes;
  in.for_each_run(0, in.size(), [&](std::string_view run, bool trusted) {
    bytes.clear();
    for (std::size_t at = 0; at < run.size();) {
      const auto step = next_utf8(run.substr(at));
      if (step.state == utf8_state::whole)
        append_utf8(bytes, change(step.code));
      else
        bytes += run.substr(at, step.length);
      at += step.length;
    }
    out.append(bytes, trusted);
  });
  return out;
}

/// Where `needle` is in `hay` from `at`; npos when nowhere. memmem is linear at worst.
std::size_t find(std::string_view hay, std::string_view needle, std::size_t at) {
  if (at > hay.size()) return hay.npos;
  const void* found = ::memmem(hay.data() + at, hay.size() - at, needle.data(), needle.size());
  return found == nullptr ? hay.npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - hay.data());
}

void check_size(guard& g, const text& out) {
  if (out.size() > guard::output_bytes_max) {
    g.fail("a string of more than " + std::to_string(guard::output_bytes_max) + " bytes");
  }
}

value split_on_blanks(guard& g, const text& in, std::int64_t most) {
  std::vector<value> out;
  std::size_t start = 0;
  bool inside = false;
  const auto full = [&] { return most >= 0 && static_cast<std::int64_t>(out.size()) >= most; };
  std::size_t rest_end = 0;  // where the last part, which is not split further, ends
  for_each_character(in.str(), [&](std::size_t begin, std::size_t end, char32_t c) {
    const bool space = is_space(c);
    if (!space) rest_end = end;
    if (inside && space && !full()) {
      out.push_back(make_text(g, in.part(start, begin)));
      inside = false;
    } else if (!inside && !space) {
      inside = true;
      start = begin;
    }
  });
  if (inside) out.push_back(make_text(g, in.part(start, full() ? in.size() : rest_end)));
  return make_list(g, std::move(out));
}

}  // namespace

text upper(const text& in) {
  return mapped(in, to_upper);
}
text lower(const text& in) {
  return mapped(in, to_lower);
}

text capitalized(const text& in) {
  bool first = true;
  return mapped(
      in, [&](char32_t c) { return std::exchange(first, false) ? to_upper(c) : to_lower(c); });
}

text titled(const text& in, bool after_any) {
  bool start = true;
  return mapped(in, [&](char32_t c) {
    const auto changed = start ? to_upper(c) : to_lower(c);
    if (after_any)
      start = !is_letter(c);
    else
      start = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    return changed;
  });
}

text stripped(const text& in, const text* characters, bool left, bool right) {
  std::u32string set;
  if (characters != nullptr) {
    for_each_character(characters->str(), [&](auto, auto, char32_t c) { set += c; });
  }
  const auto goes = [&](char32_t c) {
    return characters == nullptr ? is_space(c) : set.find(c) != set.npos;
  };
  std::size_t begin = in.size(), end = 0;
  for_each_character(in.str(), [&](std::size_t from, std::size_t to, char32_t c) {
    if (goes(c)) return;
    if (begin == in.size()) begin = from;
    end = to;
  });
  if (begin == in.size()) return left || right ? text() : in;
  return in.part(left ? begin : 0, right ? end : in.size());
}

text replaced(guard& g, const text& in, const text& old, const text& fresh, std::int64_t count) {
  text out;
  std::size_t at = 0;
  const std::string_view all = in.str();
  if (old.size() == 0) {  // between all characters, as Python does
    for_each_character(all, [&](std::size_t begin, std::size_t end, char32_t) {
      if (count != 0) out.append(fresh), --count;
      out.append_part(in, begin, end);
      check_size(g, out);
    });
    if (count != 0) out.append(fresh);
    return out;
  }
  for (; count != 0; --count) {
    const auto found = find(all, old.str(), at);
    if (found == all.npos) break;
    out.append_part(in, at, found);
    out.append(fresh);
    check_size(g, out);
    at = found + old.size();
  }
  out.append_part(in, at, in.size());
  return out;
}

value split(guard& g, const text& in, const text* separator, std::int64_t most) {
  if (separator == nullptr) return split_on_blanks(g, in, most);
  if (separator->size() == 0) g.fail("split: an empty separator");
  std::vector<value> out;
  std::size_t at = 0;
  for (; most != 0; --most) {
    const auto found = find(in.str(), separator->str(), at);
    if (found == std::string::npos) break;
    out.push_back(make_text(g, in.part(at, found)));
    at = found + separator->size();
  }
  out.push_back(make_text(g, in.part(at, in.size())));
  return make_list(g, std::move(out));
}

text joined(guard& g, const std::vector<value>& parts, const text& separator) {
  text out;
  bool first = true;
  for (const auto& part : parts) {
    g.step();
    if (!std::exchange(first, false)) out.append(separator);
    out.append(printed(g, part));
    check_size(g, out);
  }
  return out;
}

}  // namespace troupe::gpu::jinja
