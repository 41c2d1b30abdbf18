// Tensors of a trace, kept in memory until one safetensors file holds them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "parallel/run/engine.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"

namespace trireme {

class TensorRecord {
 public:
  /// A tensor of safetensors' `dtype`, such as "I32".
  void add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
           std::span<const std::byte> bytes);
  /// In fp32.
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values);
  void add(const std::string& name, const Engine& engine, const Tensor& tensor);
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::byte> data_;
};

/// Elements `first` to `first + count` along the first dim of a tensor, as fp32.
std::vector<float> read_rows(const SafetensorsReader& file, const std::string& name, std::int64_t first,
                             std::int64_t count);

}  // namespace trireme
