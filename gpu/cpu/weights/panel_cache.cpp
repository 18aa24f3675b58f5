#include "gpu/cpu/weights/panel_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "config/bytes/checksum.hpp"
#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/weights/pack_weights.hpp"
#include "gpu/cpu/weights/piece_checksums.hpp"
#include "gpu/model/file_descriptor.hpp"

namespace troupe::gpu {

namespace {

constexpr char magic[8] = {'T', 'R', 'P', 'A', 'N', 'E', 'L', 'S'};
constexpr std::uint32_t format = 2;  ///< of the header; what the panels look like is in `layout`

std::string because(const char* what, int error) {
  return std::string(what) + ": " + std::generic_category().message(error);
}

/// All of `to` from `offset`; an errno, or -1 where the file ends before.
int read_all(int fd, std::span<std::byte> to, std::uint64_t offset) {
  while (!to.empty()) {
    const auto got = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : -1;
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return 0;
}

int write_all(int fd, std::span<const std::byte> from, std::uint64_t offset) {
  while (!from.empty()) {
    const auto put = ::pwrite(fd, from.data(), from.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    from = from.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return 0;
}

/// step(offset, bytes of the piece) for every piece of `size` bytes, in parallel; the first that
/// did not answer 0.
template <class Step>
int in_pieces(worker_pool& pool, std::size_t size, Step step) {
  std::atomic<int> error{0};
  const std::size_t pieces = (size + checksum_piece_bytes - 1) / checksum_piece_bytes;
  pool.run(static_cast<std::uint32_t>(pieces), [&](std::uint32_t i) {
    if (error.load(std::memory_order_relaxed) != 0) return;
    const std::size_t at = i * checksum_piece_bytes;
    if (const int failed = step(i, at, std::min(checksum_piece_bytes, size - at)); failed != 0) {
      error.store(failed, std::memory_order_relaxed);
    }
  });
  return error.load(std::memory_order_relaxed);
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

struct panel_cache::header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t zero;
  std::uint64_t layout, model_bytes, model_sum, panel_bytes, panel_sum;
  std::uint64_t header_sum;  ///< of all before it

  std::uint64_t own_sum() const {
    return checksum64(std::as_bytes(std::span(this, 1)).first(sizeof *this - 8));
  }
  std::uint64_t file_bytes() const { return sizeof *this + panel_bytes; }
};

std::uint64_t packing_checksum() {
  constexpr std::uint32_t rows = panel_rows + 3, cols = 256;
  std::vector<std::uint64_t> sums;
  for (const tensor_type type : loadable_types()) {
    const auto number = static_cast<std::uint32_t>(type);
    // Bytes below 0x40: no field is a NaN or an infinity, whatever the type.
    std::vector<std::byte> in(rows * file_row_bytes(type, cols));
    // A linear congruential generator (Numerical Recipes): any fixed sequence would do.
    std::uint32_t state = number + 1;
    for (std::byte& b : in)
      b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 26);
    const packed_matrix shape = packed_shape(type, rows, cols);
    std::vector<std::byte> out(packed_bytes(shape));
    pack_panels(shape, type, in.data(), 0, shape.panels, out.data());
    sums.insert(sums.end(), {number, std::uint64_t{static_cast<std::uint8_t>(shape.kind)},
                             checksum64(std::span<const std::byte>(out))});
  }
  return checksum64(sums);
}

panel_cache::panel_cache(const gguf_file& file, const std::vector<std::uint64_t>& layout,
                         worker_pool& pool)
    : file_(file),
      pool_(pool),
      path_(file.path() + ".panels"),
      layout_(checksum64({packing_checksum(), checksum64(layout)})),
      model_sum_(model_sum()) {}

/// Names, types, shapes and the whole content of all tensors. Nothing else of the file is in the
/// panels.
std::uint64_t panel_cache::model_sum() {
  std::vector<std::span<const std::byte>> content;
  std::vector<std::uint64_t> words;
  for (const gguf_tensor& tensor : file_.tensors()) {
    content.push_back(tensor.data);
    words.push_back(checksum64(std::as_bytes(std::span(tensor.name))));
    words.push_back(static_cast<std::uint64_t>(tensor.type));
    words.push_back(checksum64(tensor.shape));
  }
  const auto sums = piece_checksums(content, pool_);
  words.insert(words.end(), sums.begin(), sums.end());
  return checksum64(words);
}

panel_cache::header panel_cache::expected(std::uint64_t panel_bytes) {
  header out{{}, format, 0, layout_, file_.size_bytes(), model_sum_, panel_bytes, 0, 0};
  std::memcpy(out.magic, magic, sizeof magic);
  return out;
}

bool panel_cache::exists() const {
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 || errno != ENOENT;
}

std::string panel_cache::load(std::span<std::byte> to) {
  static_assert(sizeof(header) == 64 && std::is_trivially_copyable_v<header>,
                "no gaps in the file");
  const file_descriptor file(path_, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) return because("cannot open it", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return because("cannot stat it", errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  const header want = expected(to.size());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  header found{};
  if (const int error = read_all(file.get(), std::as_writable_bytes(std::span(&found, 1)), 0)) {
    return error > 0 ? because("cannot read it", error)
                     : "it is truncated inside its header, at " + std::to_string(size) + " bytes";
  }
  if (std::memcmp(found.magic, want.magic, sizeof magic) != 0) return "it is not a file of panels";
  if (found.format != format) {
    return "its format is " + std::to_string(found.format) + ", this version reads " +
           std::to_string(format);
  }
  // After magic and format, which say more; before the fields, which mean nothing if it is damaged.
  if (found.header_sum != found.own_sum()) return "its header is damaged";
  if (found.model_bytes != want.model_bytes || found.model_sum != want.model_sum) {
    return "it was made from another model file";
  }
  if (found.layout != want.layout || found.panel_bytes != want.panel_bytes) {
    return "its panels have another layout than this version's";
  }
  if (size != want.file_bytes()) {
    return std::string(size < want.file_bytes() ? "it is truncated: " : "something was added: ") +
           std::to_string(size) + " bytes, expected " + std::to_string(want.file_bytes());
  }
  // What is summed is the memory that will be used, right behind the copy that brought it there.
  std::vector<std::uint64_t> sums((to.size() + checksum_piece_bytes - 1) / checksum_piece_bytes);
  const int error =
      in_pieces(pool_, to.size(), [&](std::uint32_t i, std::size_t at, std::size_t bytes) {
        const auto piece = to.subspan(at, bytes);
        const int failed = read_all(file.get(), piece, sizeof(header) + at);
        if (failed == 0) sums[i] = checksum64(piece);
        return failed;
      });
  if (error != 0)
    return error > 0 ? because("cannot read it", error) : "it was truncated meanwhile";
  return checksum64(sums) == found.panel_sum ? "" : "its panels are damaged";
}

/// One writer at a time holds the lock of MODEL.panels.new, so a second start neither harms the
/// first nor writes the same again, and what a killed one left is taken over by the next.
std::string panel_cache::store(std::span<const std::byte> panels) {
  // Summed again: the panels come from what the file held while it was packed, and must not vouch
  // for another.
  if (model_sum() != model_sum_) return "the model file changed while it was read";
  // Beside the file and not in a folder for temporary ones: rename is atomic only within one file
  // system.
  const std::string fresh = path_ + ".new";
  const file_descriptor file(fresh, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  if (file.get() < 0) return because(("cannot write " + fresh).c_str(), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? "another process is writing it"
                                : because("cannot lock it", errno);
  }
  // Locked too late: the name may meanwhile be another file's, and this one the finished cache.
  struct stat held {
  }, named{};
  if (::fstat(file.get(), &held) != 0 || ::lstat(fresh.c_str(), &named) != 0 ||
      !same_file(held, named) || !S_ISREG(held.st_mode)) {
    return "another process has just written it";
  }
  std::string problem = write_file(file.get(), panels);
  if (problem.empty() && ::rename(fresh.c_str(), path_.c_str()) != 0) {
    problem = because("cannot rename it into place", errno);
  }
  if (!problem.empty()) ::unlink(fresh.c_str());
  return problem;
}

std::string panel_cache::write_file(int fd, std::span<const std::byte> panels) {
  // Who may read the model may read its panels, and nobody else.
  struct stat model {};
  if (::stat(file_.path().c_str(), &model) == 0) ::fchmod(fd, model.st_mode & 0666);
  if (::ftruncate(fd, 0) != 0) return because("cannot write it", errno);
  header head = expected(panels.size());
  std::vector<std::uint64_t> sums((panels.size() + checksum_piece_bytes - 1) /
                                  checksum_piece_bytes);
  int error =
      in_pieces(pool_, panels.size(), [&](std::uint32_t i, std::size_t at, std::size_t bytes) {
        const auto piece = panels.subspan(at, bytes);
        sums[i] = checksum64(piece);
        return write_all(fd, piece, sizeof(header) + at);
      });
  head.panel_sum = checksum64(sums);
  head.header_sum = head.own_sum();
  if (error == 0) error = write_all(fd, std::as_bytes(std::span(&head, 1)), 0);
  return error == 0 ? "" : because("cannot write it", error);
}

}  // namespace troupe::gpu
