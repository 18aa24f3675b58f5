// Messages as text, for the story of a run. Formats, decides nothing.
#pragma once
#include "tests/sim/shells/edge.hpp"

namespace troupe::sim {

/// "scheduler -> session 1: ended(length, 3 tokens)".
std::string message_text(const edge& on, const caf::type_erased_tuple& what);

/// The message as this type, or none.
template <class T>
const T* as(const caf::type_erased_tuple& what) {
  return what.match_elements<T>() ? &what.get_as<T>(0) : nullptr;
}
inline const core::submit* as_submit(const caf::type_erased_tuple& what) {
  return what.match_elements<core::submit, protocol::session_actor>()
             ? &what.get_as<core::submit>(0)
             : nullptr;
}

}  // namespace troupe::sim
