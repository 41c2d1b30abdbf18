// Common parts of the transformers encoders (BERT, ViT) in Hugging Face's format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/hf_model.h"

namespace trireme {

/// A table that maps our tensor names to theirs, filled from the first block to the last.
class EncoderHfTable {
 public:
  explicit EncoderHfTable(std::int64_t hidden) : hidden_(hidden) {}

  void add(std::string ours, std::string theirs, std::vector<std::int64_t> shape);

  /// Weight and bias of a layer norm, [hidden] each.
  void add_norm(const std::string& ours, const std::string& theirs);

  /// Weight [out, in] and bias [out].
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t in, std::int64_t out);

  /// Projections of queries, keys and values. Ours are `weight` [3 hidden, hidden] and `bias` [3 hidden];
  /// theirs are separate tensors below `theirs`, such as "bert.encoder.layer.0.attention.self.".
  void add_qkv(std::string weight, std::string bias, const std::string& theirs);

  std::vector<HfTensor> tensors;

 private:
  std::int64_t hidden_;
};

}  // namespace trireme
