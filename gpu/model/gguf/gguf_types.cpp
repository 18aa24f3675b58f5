#include "gpu/model/gguf/gguf_types.hpp"

#include <iterator>

namespace troupe::gpu {
namespace {

struct type_facts {
  const char* name;  ///< empty: a retired number
  std::uint16_t elements, bytes;
};

// By ggml's number. Every type ggml has had since the format's version 2 is here, so that a file
// can be described even where it cannot be loaded.
constexpr type_facts types[] = {
    {"F32", 1, 4},        {"F16", 1, 2},       {"Q4_0", 32, 18},     {"Q4_1", 32, 20},
    {"", 0, 0},           {"", 0, 0},          {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},     {"Q8_1", 32, 40},    {"Q2_K", 256, 84},    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},   {"Q5_K", 256, 176},  {"Q6_K", 256, 210},   {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},   {"IQ3_S", 256, 110}, {"IQ2_S", 256, 82},   {"IQ4_XS", 256, 136},
    {"I8", 1, 1},         {"I16", 1, 2},       {"I32", 1, 4},        {"I64", 1, 8},
    {"F64", 1, 8},        {"IQ1_M", 256, 56},  {"BF16", 1, 2},       {"", 0, 0},
    {"", 0, 0},           {"", 0, 0},          {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},
    {"", 0, 0},           {"", 0, 0},          {"", 0, 0},           {"MXFP4", 32, 17}};

type_facts facts_of(tensor_type type) {
  const auto number = static_cast<std::uint32_t>(type);
  if (number >= std::size(types) || *types[number].name == '\0') return {"unknown", 0, 0};
  return types[number];
}

}  // namespace

bool loadable(tensor_type type) {
  switch (type) {
    case tensor_type::f32:
    case tensor_type::f16:
    case tensor_type::q4_0:
    case tensor_type::q4_1:
    case tensor_type::q5_0:
    case tensor_type::q5_1:
    case tensor_type::q8_0:
    case tensor_type::q4_k:
    case tensor_type::q5_k:
    case tensor_type::q6_k:
    case tensor_type::bf16:
      return true;
  }
  return false;
}

std::vector<tensor_type> loadable_types() {
  std::vector<tensor_type> out;
  for (std::uint32_t number = 0; number < std::size(types); ++number) {
    const auto type = static_cast<tensor_type>(number);
    if (loadable(type)) out.push_back(type);
  }
  return out;
}

std::string loadable_names() {
  std::string out, last;
  for (const auto type : loadable_types()) {
    if (!last.empty()) out += (out.empty() ? "" : ", ") + last;
    last = name_of(type);
  }
  return out + " and " + last;
}

const char* name_of(tensor_type type) {
  return facts_of(type).name;
}

std::uint32_t block_elements(tensor_type type) {
  return facts_of(type).elements;
}

std::uint32_t block_bytes(tensor_type type) {
  return facts_of(type).bytes;
}

}  // namespace troupe::gpu
