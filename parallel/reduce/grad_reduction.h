// Sums the leaves of a step over micro-batches and data ranks: an interface, with one strategy per file.
//
//   once_a_step.cc       canonical, after the last micro-batch
//   each_micro_batch.cc  canonical, after each micro-batch: buffers of a piece's size
//   library_reduction.cc the library's own all-reduce or reduce-scatter ("fast")
//
// Each runs on a data axis of one level or of two ([Note: two levels] in layout/data_axis.h). On two levels
// hosts first sum over their own ranks, in start_in_host(). The canonical strategies do so as in host_sum.h.
// The library's strategy uses reduce-scatter, which makes its all-reduce two-dimensional: over the ranks of a
// host and over hosts.
//
// [Note: another strategy] To add one: a file with a class, and a line in make_reduction(). No other code
// depends on the strategy: plans determine when start_in_host(), start() and finish() are called.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/layout/batch_layout.h"
#include "parallel/layout/data_axis.h"
#include "parallel/reduce/exchange_chunks.h"
#include "parallel/reduce/reduction_tree.h"
#include "runtime/context.h"

namespace trireme {

enum class Reduction : std::uint8_t { kCanonical, kFast };

struct GradReductionOptions {
  Reduction reduction = Reduction::kCanonical;
  ShardedState sharded;  // sharded state; determines whether gradients are needed whole or as pieces
  bool reduce_each_micro_batch = false;  // needs Assignment::kStrided
  bool cut_exchanges = false;            // see [Note: chunked exchange]; for groups that span machines
  DType dtype = DType::kFloat32;         // of all but the current backward's leaf; 16-bit excludes kFast
};

/// The gradient of a bucket. `leaf` and `sums` are [padded]. After a sharded exchange `sums` holds this
/// rank's piece.
struct GradSum {
  Tensor leaf;                // of the current backward; fp32 until it ends
  std::vector<bool> written;  // by slot of the leaf
  ReductionStack stack;
  std::vector<Tensor> sums;  // one per entry of the stack
};

/// A started exchange of a bucket.
struct GradExchange {
  int bucket = 0;
  int micro_batch = -1;                   // -1: the whole step
  std::vector<Tensor> sources, received;  // by round
  std::vector<Chunk> chunks;
  std::vector<Work> in_host_works;  // on two levels, by chunk
  bool has_started = false;         // the exchange after in_host_works has started
  std::vector<Work> works;          // by chunk, and by round within it
};

class GradReduction {
 public:
  GradReduction(const BatchLayout& batch, const GradReductionOptions& options, const DataAxis& axis)
      : batch_(batch), options_(options), axis_(axis) {}
  virtual ~GradReduction() = default;

  /// Memory category of leaves.
  virtual MemoryCategory leaf_category() const { return MemoryCategory::kGradients; }
  /// True if ranks have pieces of the sum after an exchange, even if the whole is needed.
  virtual bool sums_pieces() const { return true; }
  /// True if each chunk's sum is complete as soon as the chunk has arrived.
  virtual bool completes_chunks() const { return false; }

  /// Called when `sum.leaf` is complete: takes it, or leaves it for the next backward or for start().
  virtual void add_leaf(Context& /*ctx*/, GradSum& /*sum*/, int /*micro_batch*/) {}
  /// First on an axis of two levels: starts summing `sum` within the host.
  virtual void start_in_host(Context& ctx, GradSum& sum, GradExchange& exchange) = 0;
  /// Starts exchanging `sum` with the other ranks, or on two levels the host's sum with the other hosts. Sets
  /// all fields of `exchange` except bucket, micro_batch and chunks.
  virtual void start(Context& ctx, GradSum& sum, GradExchange& exchange) = 0;
  /// Waits for the exchange and adds. Calls `chunk_is_summed` for each chunk if completes_chunks().
  virtual void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
                      const std::function<void(const Chunk&)>& chunk_is_summed) = 0;
  /// Replaces start() and finish() if there is only one rank.
  virtual void sum_alone(Context& /*ctx*/, GradSum& /*sum*/) {}
  /// Called after all exchanges of the step: leaves one sum.
  virtual void complete(Context& /*ctx*/, GradSum& /*sum*/) {}

 protected:
  /// Pushes a complete subtree onto the stack and joins complete siblings.
  static void push(Context& ctx, GradSum& sum, const Tensor& subtree_sum, Subtree subtree);
  /// Adds the remaining entries of the stack in tree order.
  static void finish_stack(Context& ctx, GradSum& sum);
  Tensor receive_buffer(Context& ctx, std::int64_t elems) const {
    return ctx.empty({elems}, options_.dtype, MemoryCategory::kCommunication);
  }
  /// Starts sending each source's chunks to the ranks that own their pieces. On two levels it sends each
  /// chunk once the host's sum of it is complete.
  void start_all_to_all(Context& ctx, GradExchange& exchange) const;
  /// True if start_in_host() precedes start().
  bool sums_in_host() const { return axis_.is_hierarchical(); }

  const BatchLayout batch_;
  const GradReductionOptions options_;
  const DataAxis axis_;
};

/// The strategy for these options. Throws Error(kInvalidInput) if they exclude each other.
std::unique_ptr<GradReduction> make_reduction(const BatchLayout& batch, const GradReductionOptions& options,
                                              const DataAxis& axis);

// Each defined in its own file.
std::unique_ptr<GradReduction> once_a_step(const BatchLayout&, const GradReductionOptions&, const DataAxis&);
std::unique_ptr<GradReduction> each_micro_batch(const BatchLayout&, const GradReductionOptions&,
                                                const DataAxis&);
std::unique_ptr<GradReduction> library_reduction(const BatchLayout&, const GradReductionOptions&,
                                                 const DataAxis&);

}  // namespace trireme
