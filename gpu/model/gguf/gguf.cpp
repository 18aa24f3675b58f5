#include "gpu/model/gguf/gguf.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "gpu/model/file_descriptor.hpp"
#include "gpu/model/gguf/gguf_reader.hpp"
#include "gpu/model/gguf/split_model.hpp"

namespace troupe::gpu {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF files are read in place, little-endian");

constexpr std::uint64_t header_bytes = 24;
// The least a metadata entry (key of one byte, type, value of one byte) and a tensor entry (name of
// one byte, one dimension, type, offset) can take.
constexpr std::uint64_t least_entry_bytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t least_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;

std::string type_text(tensor_type type) {
  return std::string(name_of(type)) + " (type " + std::to_string(static_cast<std::uint32_t>(type)) +
         ")";
}

std::string system_text(int error) {
  return std::generic_category().message(error);
}

void check_magic(const gguf_file& file, const unsigned char* start) {
  const std::string_view magic(reinterpret_cast<const char*>(start), 4);
  if (magic == "GGUF") return;
  std::string found = "magic is " + shown(magic) + ", expected \"GGUF\"";
  // safetensors: a 64-bit length of the header, then JSON.
  if (start[8] == '{' &&
      std::all_of(start + 4, start + 8, [](unsigned char c) { return c == 0; })) {
    found += " (this looks like a safetensors file)";
  } else if (magic == "FUGG") {
    found += " (this looks like a byte-swapped file)";
  } else if (magic == "GGML" || magic == "lmgg" || magic == "tjgg" || magic == "fmgg") {
    found += " (this is a file of the older ggml formats)";
  }
  file.fail(found);
}

void check_version(const gguf_file& file, std::uint32_t version) {
  if (version == 2 || version == 3) return;
  // A small number read in the other byte order has only high bytes.
  if ((version & 0xffffu) == 0 && version != 0) {
    const auto swapped = (version >> 24) | ((version >> 8) & 0xff00u);
    file.fail("version: " + std::to_string(swapped) +
              " in big-endian order; only little-endian files are supported");
  }
  file.fail("version: " + std::to_string(version) + ", supported are 2 and 3");
}

void check_counts(const gguf_file& file, std::uint64_t tensors, std::uint64_t entries) {
  const auto left = file.size_bytes() - header_bytes;
  const auto sizes = "; truncated or damaged: the file has " + std::to_string(file.size_bytes()) +
                     " bytes, expected at least ";
  // Before anything is allocated: a count is believed only as far as the file could hold it.
  if (entries > left / least_entry_bytes) {
    const bool sum_fits = entries < (1ull << 56);
    file.fail("n_kv: " + std::to_string(entries) + sizes +
              (sum_fits ? std::to_string(header_bytes + entries * least_entry_bytes) : "2^56"));
  }
  if (tensors > (left - entries * least_entry_bytes) / least_tensor_bytes) {
    const bool sum_fits = tensors < (1ull << 56);
    file.fail("n_tensors: " + std::to_string(tensors) + sizes +
              (sum_fits ? std::to_string(header_bytes + entries * least_entry_bytes +
                                         tensors * least_tensor_bytes)
                        : "2^56"));
  }
  const auto most = std::to_string(gguf_limits::entries_max) + " are allowed";
  if (entries > gguf_limits::entries_max)
    file.fail("n_kv: " + std::to_string(entries) + ", at most " + most);
  if (tensors > gguf_limits::entries_max)
    file.fail("n_tensors: " + std::to_string(tensors) + ", at most " + most);
}

/// Where a tensor's bytes are, before the start of the data is known.
struct placement {
  std::uint64_t offset = 0;  ///< from the start of the data
  std::uint64_t bytes = 0;
};

/// The size of a tensor's data from its type and shape, with every product checked. 0 for a type
/// whose size is not known.
std::uint64_t tensor_bytes(const gguf_file& file, const gguf_tensor& tensor) {
  const auto what = "tensor " + shown(tensor.name) + ": ";
  const auto per_block = block_elements(tensor.type);
  if (per_block == 0) return 0;
  if (tensor.shape[0] % per_block != 0) {
    file.fail(what + "shape[0] is " + std::to_string(tensor.shape[0]) + ", not a multiple of the " +
              std::to_string(per_block) + " elements of a " + name_of(tensor.type) + " block");
  }
  std::uint64_t bytes = 0;
  bool overflow = __builtin_mul_overflow(tensor.shape[0] / per_block,
                                         std::uint64_t{block_bytes(tensor.type)}, &bytes);
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    overflow = overflow || __builtin_mul_overflow(bytes, tensor.shape[i], &bytes);
  }
  if (overflow) file.fail(what + "the product of its dimensions does not fit 64 bits");
  return bytes;
}

gguf_tensor read_tensor(const gguf_file& file, gguf_reader& in, std::uint64_t index, bool any_type,
                        placement& place) {
  gguf_tensor tensor;
  tensor.name =
      in.text("name of tensor " + std::to_string(index), gguf_limits::tensor_name_bytes_max);
  if (tensor.name.empty()) file.fail("name of tensor " + std::to_string(index) + ": empty");
  const auto what = "tensor " + shown(tensor.name) + ": ";
  const auto dimensions = in.u32(what + "n_dims");
  if (dimensions < 1 || dimensions > 4)
    file.fail(what + "n_dims is " + std::to_string(dimensions) + ", expected 1 to 4");
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto dimension = in.u64(what + "shape");
    if (dimension == 0 || dimension > gguf_limits::dimension_max) {
      file.fail(what + "shape[" + std::to_string(i) + "] is " + std::to_string(dimension) +
                ", expected 1 to " + std::to_string(gguf_limits::dimension_max));
    }
    tensor.shape.push_back(dimension);
  }
  tensor.type = static_cast<tensor_type>(in.u32(what + "type"));
  if (!any_type && !loadable(tensor.type)) {
    file.fail(what + "type is " + type_text(tensor.type) + ", supported are " + loadable_names());
  }
  place.offset = in.u64(what + "offset");
  place.bytes = tensor_bytes(file, tensor);
  return tensor;
}

/// Alignment, ends and overlaps of all tensors, given where the data starts.
void check_placements(const gguf_file& file, const std::vector<gguf_tensor>& tensors,
                      const std::vector<placement>& places, std::uint64_t data_start,
                      std::uint64_t alignment) {
  std::uint64_t expected = 0;
  std::size_t first_beyond = tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto what =
        "tensor " + shown(tensors[i].name) + ": offset " + std::to_string(places[i].offset);
    if (places[i].offset % alignment != 0) {
      file.fail(what + " is not a multiple of the alignment " + std::to_string(alignment));
    }
    std::uint64_t end = 0;
    if (__builtin_add_overflow(places[i].offset, places[i].bytes, &end) ||
        __builtin_add_overflow(end, data_start, &end)) {
      file.fail(what + " plus its " + std::to_string(places[i].bytes) +
                " bytes does not fit 64 bits");
    }
    if (end > file.size_bytes() && first_beyond == tensors.size()) first_beyond = i;
    expected = std::max(expected, end);
  }
  if (first_beyond != tensors.size()) {
    file.fail("tensor " + shown(tensors[first_beyond].name) + ": offset " +
              std::to_string(places[first_beyond].offset) + " plus its " +
              std::to_string(places[first_beyond].bytes) +
              " bytes lies past the end; truncated or damaged: expected " +
              std::to_string(expected) + " bytes, the file has " +
              std::to_string(file.size_bytes()));
  }
  // In the order of their offsets only neighbours can overlap.
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return places[a].offset < places[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& before = places[order[i - 1]];
    if (before.offset + before.bytes > places[order[i]].offset) {
      file.fail("tensor " + shown(tensors[order[i]].name) + ": offset " +
                std::to_string(places[order[i]].offset) + " overlaps tensor " +
                shown(tensors[order[i - 1]].name) + ", which ends at " +
                std::to_string(before.offset + before.bytes));
    }
  }
}

}  // namespace

std::uint64_t gguf_tensor::rows() const {
  std::uint64_t out = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) out *= shape[i];
  return out;
}

gguf_file gguf_file::open(const std::string& path) {
  return read(path, false);
}

gguf_file gguf_file::open_any(const std::string& path) {
  return read(path, true);
}

void gguf_file::map_file() {
  // Non-blocking, so that a pipe given by mistake is refused below instead of waited for.
  const file_descriptor opened(path_, O_RDONLY | O_NONBLOCK);
  if (opened.get() < 0) fail("cannot open: " + system_text(errno));
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) fail("cannot stat: " + system_text(errno));
  if (S_ISDIR(status.st_mode)) fail("is a directory, expected a GGUF file");
  if (!S_ISREG(status.st_mode)) fail("is not a regular file, expected a GGUF file");
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ < header_bytes) {
    fail("header: truncated: expected at least " + std::to_string(header_bytes) +
         " bytes, the file has " + std::to_string(size_));
  }
  // Private and read-only: no page is copied, and the page cache shares it between processes.
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  if (map == MAP_FAILED) {
    fail("cannot map " + std::to_string(size_) + " bytes: " + system_text(errno));
  }
  map_ = map;
}

gguf_file gguf_file::read(const std::string& path, bool any_type) {
  gguf_file file;
  file.path_ = path;
  file.map_file();
  const auto* start = static_cast<const std::byte*>(file.map_);
  gguf_reader in(file, {start, file.size_});
  check_magic(file, static_cast<const unsigned char*>(file.map_));
  in.u32("magic");
  file.version_ = in.u32("version");
  check_version(file, file.version_);
  const auto tensor_count = in.u64("n_tensors");
  const auto entry_count = in.u64("n_kv");
  check_counts(file, tensor_count, entry_count);

  for (std::uint64_t i = 0; i < entry_count; ++i) {
    const std::string key(in.text("key " + std::to_string(i), gguf_limits::key_bytes_max));
    if (key.empty()) file.fail("key " + std::to_string(i) + ": empty");
    auto value = in.value("key " + shown(key));
    if (!file.values_.emplace(key, std::move(value)).second)
      file.fail("key " + shown(key) + ": appears twice");
  }
  // Before the tensors: whatever is wrong with them, half of the model is in other files.
  if (!any_type) {
    if (const auto refusal = split_refusal(file); !refusal.empty()) file.fail(refusal);
  }
  const auto alignment = file.find_uint("general.alignment").value_or(32);
  if (!std::has_single_bit(alignment) || alignment > gguf_limits::alignment_max) {
    file.fail("general.alignment: " + std::to_string(alignment) +
              ", expected a power of two up to " + std::to_string(gguf_limits::alignment_max));
  }
  std::vector<placement> places(tensor_count);
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    auto tensor = read_tensor(file, in, i, any_type, places[i]);
    if (!file.tensor_index_.emplace(tensor.name, i).second) {
      file.fail("tensor " + shown(tensor.name) + ": appears twice");
    }
    file.tensors_.push_back(std::move(tensor));
  }
  const auto data_start = (in.position() + alignment - 1) / alignment * alignment;
  check_placements(file, file.tensors_, places, data_start, alignment);
  for (std::size_t i = 0; i < places.size(); ++i) {
    file.tensors_[i].data = {start + data_start + places[i].offset, places[i].bytes};
  }
  return file;
}

gguf_file::gguf_file(gguf_file&& other) noexcept
    : path_(std::move(other.path_)),
      map_(std::exchange(other.map_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      version_(other.version_),
      values_(std::move(other.values_)),
      tensors_(std::move(other.tensors_)),
      tensor_index_(std::move(other.tensor_index_)) {}

gguf_file& gguf_file::operator=(gguf_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(map_, other.map_);
  std::swap(size_, other.size_);
  std::swap(version_, other.version_);
  std::swap(values_, other.values_);
  std::swap(tensors_, other.tensors_);
  std::swap(tensor_index_, other.tensor_index_);
  return *this;
}

gguf_file::~gguf_file() {
  release_data();
}

void gguf_file::drop_pages(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Inwards, to whole pages: a neighbour may still be reading the others.
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void gguf_file::release_data() {
  // First, so that no span is left that points into memory that is gone.
  for (gguf_tensor& tensor : tensors_) tensor.data = {};
  if (map_ != nullptr) ::munmap(std::exchange(map_, nullptr), size_);
}

void gguf_file::fail(const std::string& what) const {
  constexpr char hex[] = "0123456789abcdef";
  std::string line;
  for (const char c : path_ + ": " + what) {
    const auto byte = static_cast<unsigned char>(c);
    // Names in the file are anyone's text: none may send commands to a terminal or break the line.
    if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    } else {
      line += c;
    }
  }
  throw model_error(line);
}

}  // namespace troupe::gpu
