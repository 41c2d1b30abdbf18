// The tensors of one safetensors file in fp32, with their stored names or, for files of other programs, their
// plain names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "runtime/checkpoint/new_head.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/tensor_names.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

class SafetensorsSource final : public TensorSource {
 public:
  enum class Names : std::uint8_t {
    kAsStored,  // files of this project's checkpoints
    kPlain,     // see plain_tensor_name()
  };

  /// A head in the file other than `new_head` is skipped. Throws the errors of SafetensorsReader.
  explicit SafetensorsSource(const std::filesystem::path& file, NewHead new_head = {},
                             Names names = Names::kAsStored);

  const SafetensorsReader& file() const { return file_; }
  std::string place() const override { return file_.path().string(); }
  /// PyTorch's batch counters are also allowed.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  bool is_new(const std::string& name) const override;
  std::vector<std::string> notes() const override { return describe_name_changes(changes_, place()); }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    file_.copy_floats(*names_.find(name), first, out);
  }

 private:
  SafetensorsReader file_;
  NewHead new_head_;
  TensorNames names_;
  std::set<std::string> changes_;
};

}  // namespace trireme
