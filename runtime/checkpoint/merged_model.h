// A model file with our names, with its low-rank adapters merged into the weights on reading.
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

/// In each of `layers`, W is read as W + scale B A.
struct SavedAdapters {
  std::int64_t rank = 0;
  double alpha = 0.0;
  bool rank_stabilized = false;      // of rsLoRA
  double scale = 0.0;                // alpha / rank, or alpha / sqrt(rank)
  std::vector<SavedAdapter> layers;  // empty: no adapters
};

/// Not thread-safe.
class MergedModel {
 public:
  /// `file` must outlive this object. Throws Error(kInvalidInput), naming the file and the tensor, if
  /// adapters are missing or do not fit their weights.
  MergedModel(const SafetensorsReader& file, const SavedAdapters& adapters);
  /// A model without adapters.
  MergedModel(const SafetensorsReader& file) : file_(file) {}  // NOLINT(google-explicit-constructor)

  const SafetensorsReader& file() const { return file_; }
  /// All tensors of the file except adapters.
  std::vector<SafetensorsEntry> entries() const;
  /// Elements [first, first + out.size()) of an F32 tensor, which must contain them. Sums use double
  /// precision.
  void copy_floats(const SafetensorsTensor& tensor, std::uint64_t first, std::span<float> out) const;

 private:
  /// A, and B times the scale, in double precision.
  struct Factors {
    std::uint64_t rows = 0, cols = 0;  // of the weight
    std::vector<double> a, scaled_b;
  };
  const Factors* factors_of(const std::string& weight) const;

  const SafetensorsReader& file_;
  std::map<std::string, SavedAdapter> adapters_;  // by weight
  std::uint64_t rank_ = 0;
  double scale_ = 0.0;
  // Factors of the weight that was read last: a weight is read in many pieces.
  mutable std::string last_;
  mutable Factors factors_;
};

}  // namespace trireme
