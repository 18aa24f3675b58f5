// What a session understands: see session_actor in type_ids.hpp (it is declared there because its handle travels in
// a message).
#pragma once
#include "actors/protocol/type_ids.hpp"
