// The one error of a model file: what() is a single line naming file, field and value.
#pragma once
#include <stdexcept>
#include <string>

namespace troupe::gpu {

class model_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace troupe::gpu
