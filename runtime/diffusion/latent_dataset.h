// Samples from shards of latents: safetensors files, as examples/latents.py writes them.
//
// A shard holds `latents` [N, h, w, c], perhaps `condition` [N, L, D], both in fp32, fp16 or bf16, and
// perhaps `classes` [N] int32. The first shard may hold `null_condition` [L, D], which stands for "no
// condition". All shards have the same tensors and shapes; N may differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/data/data_fingerprint.h"
#include "runtime/data/dataset.h"

namespace trireme {

/// The files of `path`: itself, or the *.safetensors of a folder in order of name. Throws
/// Error(kInvalidInput) for a folder without any, and for a path that does not exist.
std::vector<std::filesystem::path> latent_shards(const std::filesystem::path& path);

/// L of `condition` [N, L, D] in the first file of `path`; 0 without a condition.
std::int64_t condition_vectors(const std::filesystem::path& path);

/// Inputs [B, h, w, c] fp32, labels [B] (0 without classes), a condition [B, L, D] where the shards have one.
/// In training order a pass uses each sample once (see [Note: training order]).
class LatentDataset final : public Dataset {
 public:
  /// The shapes that the network needs.
  struct Shapes {
    Shape latent;              // [h, w, c]
    Shape condition;           // [L, D]; rank 0: none
    std::int64_t classes = 0;  // labels are below this number; 0: none
  };
  /// Opens latent_shards(path). Throws Error(kInvalidInput) naming the file, the tensor, and both shapes.
  LatentDataset(const std::filesystem::path& path, const Shapes& shapes, std::uint64_t seed);

  std::int64_t num_samples() const override { return first_samples_.back(); }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;

  /// Empty: the shards have none.
  const std::vector<float>& null_condition() const { return null_condition_; }
  /// Covers all tensors. Reads the files.
  DataFingerprint fingerprint() const;

 private:
  void add_shard(const std::filesystem::path& path);
  HostBatch empty_batch(std::int64_t count) const;
  void append(std::int64_t sample, HostBatch& batch) const;

  Shapes shapes_;
  std::uint64_t seed_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::int64_t> first_samples_ = {0};  // of each shard, and their total
  std::vector<float> null_condition_;
};

}  // namespace trireme
