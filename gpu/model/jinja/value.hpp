// The values a chat template computes with. Text remembers, byte by byte, whether it came from the
// template or from users. Everything but a namespace is immutable and shared, so copies are cheap.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/bytes/utf8.hpp"

namespace troupe::gpu::jinja {

struct node;  // of the parsed template
class guard;

/// UTF-8 text in runs of equal trust.
class text {
 public:
  text() = default;
  text(std::string_view bytes, bool trusted) { append(bytes, trusted); }

  const std::string& str() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  void append(std::string_view bytes, bool trusted);
  void append(const text& other) { append_part(other, 0, other.size()); }
  /// The bytes [begin, end) of `other`, with their trust.
  void append_part(const text& other, std::size_t begin, std::size_t end);
  text part(std::size_t begin, std::size_t end) const;
  /// Calls f(bytes, trusted) for each run of [begin, end).
  template <class F>
  void for_each_run(std::size_t begin, std::size_t end, F f) const {
    const std::string_view all = bytes_;
    for (std::size_t i = run_at(begin); begin < end; ++i) {
      const auto stop = runs_[i].end < end ? runs_[i].end : end;
      f(all.substr(begin, stop - begin), runs_[i].trusted);
      begin = stop;
    }
  }
  /// `offset` must be inside.
  bool trusted_at(std::size_t offset) const { return runs_[run_at(offset)].trusted; }
  /// Jinja's Markup (what `safe` and `escape` answer): what is added to it is escaped.
  bool markup = false;

 private:
  struct run {
    std::size_t end;
    bool trusted;
  };
  std::size_t run_at(std::size_t offset) const;

  std::string bytes_;
  std::vector<run> runs_;
};

struct undefined {
  std::shared_ptr<const std::string> what;  ///< what was looked up, for messages; may be null
};
struct none {};
struct list;
struct dict;
struct name_space;
struct loop_state;
struct callable;

using text_ref = std::shared_ptr<const text>;
using list_ref = std::shared_ptr<const list>;
using dict_ref = std::shared_ptr<const dict>;
using namespace_ref = std::shared_ptr<name_space>;
using loop_ref = std::shared_ptr<const loop_state>;
using callable_ref = std::shared_ptr<const callable>;

using value = std::variant<undefined, none, bool, std::int64_t, double, text_ref, list_ref,
                           dict_ref, namespace_ref, loop_ref, callable_ref>;

enum class list_kind : std::uint8_t {
  list,
  tuple,
  range,
  view,      ///< of a dict's keys, values or items
  generator  ///< what select, map and the like answer: true even when empty, read once
};
/// `depth` counts the values nested inside, so that recursion over a value is bounded.
struct list {
  std::vector<value> items;
  int depth = 1;
  list_kind kind = list_kind::list;
  mutable std::size_t taken = 0;  ///< items of a generator that were read
};
/// Keys are texts, numbers, bools or none; those that are equal are one.
struct dict {
  std::vector<std::pair<value, value>> entries;
  int depth = 1;
  const value* find(std::string_view key) const;
  const value* find(guard&, const value& key) const;
};
/// The only mutable value; the evaluator empties all of them at the end, which ends any cycle.
struct name_space {
  std::map<std::string, value, std::less<>> entries;
};
/// The scope in which a macro, a call block's body or a recursive loop was made, and whose names it
/// sees. It can be called while that scope lasts.
struct home_scope {
  std::size_t index = 0;
  std::uint64_t serial = 0;
};
struct loop_state {
  list_ref items;
  std::size_t index0 = 0;
  int depth0 = 0;                   ///< calls of this loop inside each other
  const node* recursive = nullptr;  ///< the loop, when it may be called
  home_scope home;
};
enum class function { range, make_namespace, make_dict, raise_exception, strftime_now };
struct callable {
  const node* macro = nullptr;  ///< a macro or a call block, or
  function builtin{};           ///< a function of the engine
  home_scope home;              ///< of a macro
};

/// Limits of one rendering, its clock, and the place that errors name.
class guard {
 public:
  static constexpr std::size_t output_bytes_max = 16u << 20;
  static constexpr std::size_t made_bytes_max = 512u
                                                << 20;  ///< of all values of a rendering together
  static constexpr std::uint64_t steps_max = 2'000'000;
  static constexpr int depth_max = 100;

  explicit guard(std::string_view source) : source_(source) {}
  std::uint32_t at = 0;  ///< offset in the source of what is being read or evaluated
  std::time_t now = 0;   ///< the clock of the rendering

  /// Throws template_error with the line and column of `at`.
  [[noreturn]] void fail(const std::string& what) const;
  void step(std::uint64_t count = 1);
  /// Counts memory of a new value.
  void charge(std::size_t bytes);
  /// Fails for nesting beyond the limit.
  void check_depth(int depth) const;

 private:
  std::string_view source_;
  std::uint64_t steps_ = 0;
  std::size_t made_bytes_ = 0;
};

value make_text(guard&, text);
value trusted_text(guard&, std::string_view);
value make_list(guard&, std::vector<value> items, list_kind kind = list_kind::list);
/// Of equal keys the last counts, at the place of the first. Fails for keys that cannot be hashed.
value make_dict(guard&, std::vector<std::pair<value, value>> entries);

/// "string", "list", ... for messages.
const char* kind_of(const value&);
bool is_undefined(const value&);
/// Fails for an undefined value, naming what is undefined.
void check_defined(guard&, const value&);
bool truthy(const value&);
bool equal(guard&, const value&, const value&);
/// Negative, 0, positive; fails for kinds without an order.
int order(guard&, const value&, const value&);
bool contains(guard&, const value& container, const value& item);

/// object.name; undefined when there is none. Fails for a method that is not called.
value attribute(guard&, const value& object, std::string_view name);
/// object[key]
value item(guard&, const value& object, const value& key);
/// object[start:stop:step]; undefined or none stands for a part left out.
value slice(guard&, const value& object, const value& start, const value& stop, const value& step);
/// The elements a for loop sees; those of a generator that are left, which it then has no more.
list_ref elements(guard&, const value&);
std::int64_t length(guard&, const value&);
std::int64_t integer(guard&, const value&, const char* what);
/// Fails for other kinds.
const text& text_of(guard&, const value&, const char* what);

/// How {{ value }} prints; as Python's str(). Fails for what has no text of its own there.
text printed(guard&, const value&);
/// Python's repr().
text represented(guard&, const value&);
struct json_style {
  bool ascii = false;        ///< escape everything else
  int indent = -1;           ///< negative: on one line
  std::string comma = ", ";  ///< between elements; without trailing blanks when there is an indent
  std::string colon = ": ";
  bool sorted = false;  ///< keys in order
};
/// As Python's json.dumps.
text json(guard&, const value&, const json_style&);
std::string float_text(double);

/// Calls f(begin, end, code point) for each character; ill-formed bytes one maximal part at a time.
template <class F>
void for_each_character(std::string_view bytes, F f) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto step = next_utf8(bytes.substr(at));
    f(at, at + step.length, step.code);
    at += step.length;
  }
}

}  // namespace troupe::gpu::jinja
