// Text operations of the template engine. They work on characters and copy runs, so trust follows
// every byte.
#include <string.h>
#include <utf8proc.h>

#include <algorithm>

#include "gpu/model/jinja/functions.hpp"

namespace troupe::gpu::jinja {
namespace {

void check_size(guard& g, const text& out) {
  if (out.size() > guard::output_bytes_max) {
    g.fail("a string of more than " + std::to_string(guard::output_bytes_max) + " bytes");
  }
}

/// str.split() without a separator: any run of white space is one, and none at the ends counts.
/// With a limit the rest stays as it is, but for the blanks before it.
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

// The categories L*, which utf8proc numbers in a row.
bool is_letter(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

bool is_number(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

// Python's str.isspace: its list, not Unicode's White_Space, which has no U+001C to U+001F.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

// memmem is linear at worst, unlike std::string::find: texts of users meet here.
std::size_t find_bytes(std::string_view hay, std::string_view needle, std::size_t from) {
  if (from > hay.size()) return hay.npos;
  const void* found = ::memmem(hay.data() + from, hay.size() - from, needle.data(), needle.size());
  return found == nullptr ? hay.npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - hay.data());
}

std::size_t find_last_bytes(std::string_view hay, std::string_view needle) {
  if (needle.empty()) return hay.size();
  // memmem from the right: both turned around.
  const std::string backwards(hay.rbegin(), hay.rend()), wanted(needle.rbegin(), needle.rend());
  const auto found = find_bytes(backwards, wanted, 0);
  return found == hay.npos ? found : hay.size() - found - needle.size();
}

// `characters` is a set, as in Python, not a prefix.
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
      // A negative count stands for all: it never reaches 0.
      if (count != 0) out.append(fresh), --count;
      out.append_part(in, begin, end);
      check_size(g, out);
    });
    if (count != 0) out.append(fresh);
    return out;
  }
  // Negative: all of them.
  for (; count != 0; --count) {
    const auto found = find_bytes(all, old.str(), at);
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
    const auto found = find_bytes(in.str(), separator->str(), at);
    if (found == std::string::npos) break;
    out.push_back(make_text(g, in.part(at, found)));
    at = found + separator->size();
  }
  out.push_back(make_text(g, in.part(at, in.size())));
  return make_list(g, std::move(out));
}

value split_from_right(guard& g, const text& in, const text* separator, std::int64_t most) {
  if (most < 0) return split(g, in, separator, most);
  std::vector<value> out;
  std::size_t end = in.size();
  if (separator == nullptr) {
    // The parts from the left are those from the right, but for what the limit leaves together.
    const auto all = std::get<list_ref>(split(g, in, nullptr, -1));
    const auto extra = static_cast<std::int64_t>(all->items.size()) - most;
    if (extra <= 0) return all;
    std::vector<std::size_t> ends;  // of the parts, in the text
    bool inside = false;
    for_each_character(in.str(), [&](std::size_t, std::size_t to, char32_t c) {
      if (!is_space(c) && !inside) ends.push_back(to);
      inside = !is_space(c);
      if (inside) ends.back() = to;
    });
    const auto joined_parts = static_cast<std::size_t>(extra);
    out.push_back(make_text(g, in.part(0, ends[joined_parts - 1])));
    out.insert(out.end(), all->items.begin() + extra, all->items.end());
    return make_list(g, std::move(out));
  }
  if (separator->size() == 0) g.fail("rsplit: an empty separator");
  // Found from the right by turning both around, as find_last_bytes does.
  const std::string backwards(in.str().rbegin(), in.str().rend());
  const std::string wanted(separator->str().rbegin(), separator->str().rend());
  for (; most > 0; --most) {
    const auto found = find_bytes(backwards, wanted, in.size() - end);
    if (found == std::string::npos) break;
    const auto at = in.size() - found - wanted.size();
    out.push_back(make_text(g, in.part(at + wanted.size(), end)));
    end = at;
  }
  out.push_back(make_text(g, in.part(0, end)));
  std::reverse(out.begin(), out.end());
  return make_list(g, std::move(out));
}

text escaped(guard& g, const text& in) {
  // Escaping twice would show the reader the entities.
  if (in.markup) return in;
  text out;
  std::size_t plain = 0;
  const auto& all = in.str();
  for (auto at = all.find_first_of("&<>\"'"); at != all.npos;
       at = all.find_first_of("&<>\"'", at + 1)) {
    out.append_part(in, plain, at);
    const char c = all[at];
    out.append(c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&#34;"
                          : "&#39;",
               in.trusted_at(at));
    check_size(g, out);
    plain = at + 1;
  }
  out.append_part(in, plain, in.size());
  out.markup = true;
  return out;
}

// Each part as it prints; the separator keeps its own trust.
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
