// A set of samples, readable by index from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// Rows of tokens with several documents, or fewer tokens than the row: packed or padded. All int32.
///
/// Each row is a sequence of documents; a padding token is a separate document. A token attends only within
/// its document and counts its position from the document's start. So a document is computed as if it were
/// alone in its row.
struct DocumentRows {
  std::vector<std::int32_t> key_bounds;  // [B, T, 2]: first token of the document, and one past its last
  std::vector<std::int32_t> positions;   // [B, T]: within the document
  std::vector<std::int32_t> types;       // [B, T]: segment of the document, 0 or 1
  bool empty() const { return positions.empty(); }
};

/// Samples of a micro-batch in host memory, ready to be copied to a device.
///
/// Tokens: inputs and targets [B, T] int32. Images: inputs [B, H, W, 3] fp32, normalised, red first; targets
/// [B] labels. Images with mixed labels: targets [B, K] labels and target_weights [B, K], >= 0, which sum to
/// 1 in each row up to rounding. The loss of a sample is the sum over k of target_weights * loss(label k). A
/// label may occur twice in a row. A row with fewer than K labels is filled with labels of weight 0.
///
/// Regression: number_targets [B, ...] in place of targets, and target_weights [B]. The loss of a sample is
/// its weight times the mean over its numbers; a sample of weight 0 does not count.
struct HostBatch {
  Shape input_shape, target_shape;  // dim 0 = number of samples
  DType input_dtype = DType::kInt32;
  DType target_dtype = DType::kInt32;  // kFloat32: number_targets
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> targets;
  std::vector<float> number_targets;
  std::vector<float> target_weights;  // shaped like targets, or [B] with number_targets; empty: all 1
  // [B, K]: the tokens of each sample with targets >= 0, ascending, filled up with -1; empty: not known. K is
  // fixed by the job, so that the size of the head's tensors is.
  std::vector<std::int32_t> target_positions;
  DocumentRows documents;  // of token rows; empty: each row is one document of type 0
  // Further inputs; empty: none. See Batch.
  std::vector<float> timesteps;       // [B]
  Shape condition_shape;              // [B, L, D]
  std::vector<float> condition;       // shaped condition_shape
  std::vector<std::int32_t> classes;  // [B]

  Shape positions_shape() const {
    const std::int64_t samples = target_shape.dim(0);
    return {samples, static_cast<std::int64_t>(target_positions.size()) / samples};
  }
  Shape weights_shape() const {
    return target_dtype == DType::kInt32 ? target_shape : Shape{target_shape.dim(0)};
  }
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Samples in one pass (an epoch).
  virtual std::int64_t num_samples() const = 0;
  /// Number of targets of one sample in the loss (T for tokens, 1 for a label); the maximum if it varies.
  virtual std::int64_t targets_per_sample() const = 0;
  /// Number of targets of samples [first, first + count) of read_train(), and of read_sequential(); their
  /// loss is divided by it. Computed without reading, so that every rank knows the number for a whole batch.
  /// Targets of skipped samples count. Thread-safe.
  virtual std::int64_t num_train_targets(std::int64_t /*first*/, std::int64_t count) const {
    return count * targets_per_sample();
  }
  virtual std::int64_t num_sequential_targets(std::int64_t /*first*/, std::int64_t count) const {
    return count * targets_per_sample();
  }
  /// The ends of the documents in a sample's row, in order; tokens after the last end are padding. Empty: the
  /// row is one document. Computed without reading. Thread-safe.
  virtual std::vector<std::int32_t> train_documents(std::int64_t /*sample*/) const { return {}; }
  virtual std::vector<std::int32_t> sequential_documents(std::int64_t /*sample*/) const { return {}; }
  /// Reads samples by their index in training order. Sample i of the run belongs to epoch i / num_samples();
  /// its position in the epoch is a function of the seed. Thread-safe.
  virtual HostBatch read_train(std::int64_t first, std::int64_t count) const = 0;
  /// Reads samples in file order, for evaluation: indices in [0, num_samples()). A skipped sample has the
  /// target -1, which does not count.
  virtual HostBatch read_sequential(std::int64_t first, std::int64_t count) const = 0;
  /// Preferred number of consecutive samples per reading thread, aligned to multiples of it; 0: any number.
  virtual std::int64_t samples_per_read() const { return 0; }
  /// One message for each sample that was skipped or replaced because it could not be read, among the samples
  /// this process has read. Thread-safe.
  virtual std::vector<std::string> left_out() const { return {}; }
};

}  // namespace trireme
