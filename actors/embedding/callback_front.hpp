// The former name of callback_client.hpp, kept for one release: programs written against 0.1 that
// include it still build.
#pragma once
#include "actors/embedding/callback_client.hpp"

namespace troupe {
using callback_front [[deprecated("use callback_client")]] = callback_client;
}
