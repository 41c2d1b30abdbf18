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

/// "F32", "F16" or "BF16", as safetensors spells a dtype of floats. Throws Error(kUnsupported) for others.
std::string_view safetensors_name(DType dtype);

/// True for the three spellings above.
bool is_float_data(const SafetensorsEntry& entry);

/// Elements [first, first + out.size()) of a flat tensor, exactly. The tensor is_float_data() and has them.
void copy_as_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out);

/// Appends `values`, rounded to nearest, ties to even; what `dtype` cannot hold becomes infinite.
void append_rounded(std::span<const float> values, DType dtype, std::vector<std::byte>& out);

}  // namespace trireme
