// The tensors of a Hugging Face transformers folder, with our names and shapes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/new_head.h"
#include "runtime/checkpoint/safetensors_folder.h"
#include "runtime/checkpoint/tensor_names.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

/// Reads memory-mapped files. Allocates no memory for tensors; copy_floats() writes to the caller's.
class HfSource final : public TensorSource {
 public:
  /// `new_head` as in SafetensorsSource. Throws the errors of SafetensorsFolder, and Error(kInvalidInput) for
  /// two names of one tensor.
  HfSource(const std::filesystem::path& folder, HfModel model, NewHead new_head = {});

  std::string place() const override { return files_.path().string(); }
  /// Tensors may be in fp32, fp16 or bf16. Errors name the file, and the tensor by its name in transformers.
  /// The first call compares copies and derived tensors with the model.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  bool is_new(const std::string& name) const override;
  std::vector<std::string> notes() const override;
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override;

 private:
  using Found = SafetensorsFolder::Found;

  std::set<std::string> part_names() const;
  void add_names();
  /// The tensor with this full name, or null.
  const Found* find(const std::string& name) const;
  /// The stored tensor of a part, or its copy if the part is missing, or null.
  const Found* find(const HfPart& part) const;
  std::string name_in_file(const std::string& name) const;
  void check_part(const HfTensor& tensor, const HfPart& part) const;
  void check_not_taken() const;
  /// True if the tensor was compared, or belongs to another head.
  bool is_explained(const std::string& name, const Found& stored) const;

  SafetensorsFolder files_;
  HfModel model_;
  std::map<std::string, std::size_t> index_;  // our name -> tensor
  TensorNames names_;                         // by full name, with the model's prefix
  std::set<std::string> name_changes_;
  bool has_prefix_ = false;
  NewHead new_head_;
  mutable bool is_compared_ = false;
  mutable std::set<std::string> unused_;  // tensors of other heads
};

}  // namespace trireme
