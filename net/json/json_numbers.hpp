// Numbers that JSON allows and no 64-bit type holds. Pure.
#pragma once
#include <string>
#include <string_view>

namespace troupe::net {

/// `json` with each such number made one that a double holds, in as many bytes: whole numbers
/// beyond 64 bits keep their magnitude, numbers beyond a double's range become 9e307 of their sign.
/// No field takes either, so a field that is read is still refused by name, and one that is ignored
/// is no reason to refuse the request. Text that is not JSON stays as it is.
std::string with_bounded_numbers(std::string_view json);

}  // namespace troupe::net
