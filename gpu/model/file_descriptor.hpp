// A file opened and closed again with its owner, whatever happens between. Owns the descriptor;
// what went wrong with opening it is in errno. A mapping of the file outlives it.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace troupe::gpu {

class file_descriptor {
 public:
  /// A file that O_CREAT makes is its owner's alone.
  file_descriptor(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~file_descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;
  /// Negative: it could not be opened.
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace troupe::gpu
