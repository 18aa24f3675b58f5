// The former name of answer_future.hpp, kept for one release: programs written against 0.1 that
// include it still build.
#pragma once
#include "actors/embedding/answer_future.hpp"
