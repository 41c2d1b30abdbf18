// The header of a safetensors file, as text, to what it declares.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors_format.h"

namespace trireme {

struct SafetensorsHeader {
  struct Tensor : SafetensorsEntry {
    std::uint64_t begin = 0, end = 0;  // bytes of the data
  };

  std::vector<Tensor> tensors;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

/// In time and memory that grow with the text, whatever it holds. Throws Error(kInvalidInput) saying what is
/// wrong with it and with which tensor; dtypes and offsets are taken as they are.
SafetensorsHeader parse_safetensors_header(std::string_view text);

}  // namespace trireme
