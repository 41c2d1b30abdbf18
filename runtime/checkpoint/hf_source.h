// The tensors of a folder of Hugging Face's transformers, by our names and in our shapes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/new_head.h"
#include "runtime/checkpoint/safetensors_folder.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

/// Reads the mapped files in place: memory is that of what is copied out.
class HfSource final : public TensorSource {
 public:
  /// `new_head` as in SafetensorsSource. Throws what SafetensorsFolder does.
  HfSource(const std::filesystem::path& folder, HfModel model, NewHead new_head = {});

  std::string place() const override { return files_.path().string(); }
  /// Names their tensors and files. Tensors may be in fp32, fp16 or bf16.
  void check(std::span<const SafetensorsEntry> wanted) const override;
  bool is_new(const std::string& name) const override;
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override;

 private:
  /// Null: it is not there.
  const SafetensorsFolder::Found* find(const HfPart& part) const;
  std::string name_in_file(const std::string& name) const;
  void check_part(const HfTensor& tensor, const HfPart& part) const;
  void check_nothing_else() const;

  SafetensorsFolder files_;
  HfModel model_;
  std::map<std::string, std::size_t> index_;  // our name -> tensor
  bool has_prefix_ = false;
  NewHead new_head_;
};

}  // namespace trireme
