// A set of samples that can be read by index, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// Rows of tokens that hold several documents, or fewer tokens than the row: packed or padded. All int32.
///
/// Each row is a sequence of documents; a padding token is a document of its own. A token sees those of its
/// document and counts its position from the document's start, so that a document is computed as if it were
/// alone in its row.
struct DocumentRows {
  std::vector<std::int32_t> key_bounds;  // [B, T, 2]: first and one past the last token of the document
  std::vector<std::int32_t> positions;   // [B, T]: in the document
  std::vector<std::int32_t> types;       // [B, T]: of its two segments, 0 or 1
  bool empty() const { return positions.empty(); }
};

/// Samples of a micro-batch in host memory, ready to be copied to a device.
///
/// Tokens: inputs and targets [B, T] int32. Images: inputs [B, H, W, 3] fp32, normalised, red first; targets
/// [B] labels. Images whose labels are mixed: targets [B, K] labels and target_weights [B, K], >= 0, which
/// sum to 1 in each row up to rounding; the loss of a sample is the sum over k of target_weights * loss(label
/// k). A label may come twice in a row, and one of weight 0 fills in where there are fewer than K.
struct HostBatch {
  Shape input_shape, target_shape;  // dim 0 = number of samples
  DType input_dtype = DType::kInt32;
  std::vector<std::byte> inputs;
  std::vector<std::int32_t> targets;
  std::vector<float> target_weights;  // of target_shape; empty: all 1
  DocumentRows documents;             // of tokens; empty: a row is one document of type 0
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Samples in one pass (an epoch).
  virtual std::int64_t num_samples() const = 0;
  /// Targets that one sample contributes to the loss (T for tokens, 1 for a label), at most where their
  /// number varies.
  virtual std::int64_t targets_per_sample() const = 0;
  /// Targets of samples [first, first + count) of read_train(), and of read_sequential(): what their loss is
  /// divided by. Counted without reading, so that every rank knows the number of a whole batch; those of
  /// samples that are left out count. Thread-safe.
  virtual std::int64_t num_train_targets(std::int64_t /*first*/, std::int64_t count) const {
    return count * targets_per_sample();
  }
  virtual std::int64_t num_sequential_targets(std::int64_t /*first*/, std::int64_t count) const {
    return count * targets_per_sample();
  }
  /// The ends of the documents in the row of a sample, in order; the tokens from the last on are padding.
  /// Empty: the row is one document. Known without reading. Thread-safe.
  virtual std::vector<std::int32_t> train_documents(std::int64_t /*sample*/) const { return {}; }
  virtual std::vector<std::int32_t> sequential_documents(std::int64_t /*sample*/) const { return {}; }
  /// Reads samples by their index in training order: sample i of the run belongs to epoch i / num_samples()
  /// and its position there follows from the seed alone. Thread-safe.
  virtual HostBatch read_train(std::int64_t first, std::int64_t count) const = 0;
  /// Reads samples in file order, for evaluation: indices in [0, num_samples()). A sample that is left out
  /// has the target -1, which does not count.
  virtual HostBatch read_sequential(std::int64_t first, std::int64_t count) const = 0;
  /// The number of samples that, from a multiple of it on, are best read by one thread; 0: any number.
  virtual std::int64_t samples_per_read() const { return 0; }
  /// Samples that were left out or replaced because they could not be read, a message each, as far as this
  /// process has read it. Thread-safe.
  virtual std::vector<std::string> left_out() const { return {}; }
};

}  // namespace trireme
