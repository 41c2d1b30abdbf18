// Masked language modelling (Devlin et al. 2019) over any token data set.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/dataset.h"

namespace trireme {

/// The inputs of another set, with some tokens as targets; other targets are -1. Of a row with n tokens that
/// may be targets, num_targets(n, probability) are, as in the authors' program. 80 % of them are replaced by
/// the mask token, 10 % by a random token, and 10 % stay. In rows of documents, padding and the first token
/// of each document, its class token, are never targets. HostBatch::target_positions is set.
///
/// Masks depend on the seed, the sample's index in training order, which implies the epoch, and the position:
/// the targets of a row are its tokens with the lowest random numbers. Without documents every row has as
/// many targets, so that the head's tensors are small and of one size, and a recorded step can be replayed.
///
/// [Note: varying targets] In rows of documents the number of targets varies from step to step. Every rank
/// computes the number for the whole batch, without reading samples and without communication. So loss and
/// gradients are divided by the same number on every layout. A step without targets is an update with zero
/// gradients and a loss of 0, in which momentum and weight decay still apply.
class MaskedTokens final : public Dataset {
 public:
  struct Options {
    std::shared_ptr<const Dataset> tokens;  // inputs [B, T] int32
    std::uint64_t seed = 0;
    double probability = 0.15;    // share of the tokens that are targets
    std::int32_t mask_token = 0;  // in [0, vocab_size)
    std::int64_t vocab_size = 0;
  };

  /// max(1, probability * tokens rounded to nearest), or 0 without tokens. Never more than `tokens`.
  static std::int64_t num_targets(std::int64_t tokens, double probability);

  /// Throws Error(kInvalidInput) if the probability is not in (0, 1] or the mask token is not in the
  /// vocabulary.
  explicit MaskedTokens(const Options& options);

  std::int64_t num_samples() const override { return options_.tokens->num_samples(); }
  /// The tokens of a sample, which count in the throughput.
  std::int64_t targets_per_sample() const override { return options_.tokens->targets_per_sample(); }
  std::int64_t num_train_targets(std::int64_t first, std::int64_t count) const override;
  std::int64_t num_sequential_targets(std::int64_t first, std::int64_t count) const override;
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return options_.tokens->samples_per_read(); }
  std::vector<std::int32_t> train_documents(std::int64_t sample) const override {
    return options_.tokens->train_documents(sample);
  }
  std::vector<std::int32_t> sequential_documents(std::int64_t sample) const override {
    return options_.tokens->sequential_documents(sample);
  }
  std::vector<std::string> left_out() const override { return options_.tokens->left_out(); }

 private:
  /// Values of the last counter word, distinct from the values that ops use (see RngKey::draw).
  enum class Stream : std::uint32_t { kTrain = 0xFFFF0013u, kSequential = 0xFFFF0014u };
  /// For each token of a sample's row, true if it may become a target.
  std::vector<bool> maskable(std::int64_t sample, Stream stream) const;
  std::int64_t count_targets(std::int64_t first, std::int64_t count, Stream stream) const;
  HostBatch mask(HostBatch batch, std::int64_t first, Stream stream) const;
  /// The positions of a row's targets, ascending.
  std::vector<std::int32_t> targets_of(std::int64_t sample, Stream stream) const;

  Options options_;
};

}  // namespace trireme
