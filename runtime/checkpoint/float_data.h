// Converts safetensors data in fp32, fp16 or bf16 to fp32 and back, at any alignment.
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
  float first_infinite;               // the smallest fp32 number that rounds to infinity
};

/// The format of fp32, fp16 or bf16. Throws Error(kUnsupported) for others.
const FloatFormat& float_format(DType dtype);

/// True if the entry's dtype is one of these three.
bool is_float_data(const SafetensorsEntry& entry);

/// Elements [first, first + out.size()) of a flat tensor, converted exactly. Requires is_float_data() and a
/// range within the tensor.
void copy_as_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out);

/// Appends `values`, rounded to nearest, ties to even; values out of range of `dtype` become infinite.
void append_rounded(std::span<const float> values, DType dtype, std::vector<std::byte>& out);

}  // namespace trireme
