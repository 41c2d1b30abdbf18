// Data of safetensors in the formats of floats that weights come in, to fp32 and back, whatever its
// alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {

struct FloatFormat {
  DType dtype;
  std::string_view safetensors_name;  // "BF16"
  std::string_view torch_name;        // "bfloat16"
  float first_infinite;               // the least number of fp32 that becomes infinite
};

/// Of fp32, fp16 and bf16. Throws Error(kUnsupported) for others.
const FloatFormat& float_format(DType dtype);

/// True for the spellings of these three.
bool is_float_data(const SafetensorsEntry& entry);

/// Elements [first, first + out.size()) of a flat tensor, exactly. The tensor is_float_data() and has them.
void copy_as_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out);

/// Appends `values`, rounded to nearest, ties to even; what `dtype` cannot hold becomes infinite.
void append_rounded(std::span<const float> values, DType dtype, std::vector<std::byte>& out);

}  // namespace trireme
