// A model in a file of our names, with the low-rank adapters beside its weights added to them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {

/// The tensors of one adapted linear layer: its weight W [N, K], A [rank, K] and B [N, rank].
struct SavedAdapter {
  std::string weight, a, b;
};

/// W stands for W + (alpha / rank) B A in each of `layers`.
struct SavedAdapters {
  std::int64_t rank = 0;
  double alpha = 0.0;
  std::vector<SavedAdapter> layers;  // empty: the model has none
};

/// For one thread.
class MergedModel {
 public:
  /// The file outlives this. Throws Error(kInvalidInput), naming the file and the tensor, where adapters are
  /// missing or do not fit their weights.
  MergedModel(const SafetensorsReader& file, const SavedAdapters& adapters);
  /// Of a model without adapters.
  MergedModel(const SafetensorsReader& file) : file_(file) {}  // NOLINT(google-explicit-constructor)

  const SafetensorsReader& file() const { return file_; }
  /// All that the file has but for adapters.
  std::vector<SafetensorsEntry> entries() const;
  /// Elements [first, first + out.size()) of an F32 tensor that has them; sums are made in double precision.
  void copy_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out) const;

 private:
  /// scale B and A, in double precision.
  struct Factors {
    std::uint64_t rows = 0, cols = 0;  // of the weight
    std::vector<double> a, scaled_b;
  };
  const Factors* factors_of(const std::string& weight) const;

  const SafetensorsReader& file_;
  std::map<std::string, SavedAdapter> adapters_;  // by weight
  std::uint64_t rank_ = 0;
  double scale_ = 0.0;
  // Those of the weight that was read last: a weight is read in many pieces.
  mutable std::string last_;
  mutable Factors factors_;
};

}  // namespace trireme
