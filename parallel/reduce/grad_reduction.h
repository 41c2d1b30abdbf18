// How the leaves of a step become their sum over micro-batches and data ranks: an interface, and one strategy
// a file.
//
//   once_a_step.cc       canonical, after the last micro-batch
//   each_micro_batch.cc  canonical, after each one: buffers of a piece's size
//   library_reduction.cc the library's own all-reduce or reduce-scatter ("fast")
//
// Each runs on a data axis of one level or of two ([Note: two levels] in layout/data_axis.h). Of two, hosts
// sum what their ranks have first, in start_in_host(): the canonical strategies as host_sum.h says, the
// library's with its reduce-scatter, so that its all-reduce is one along both sides of the grid of hosts and
// places.
//
// [Note: another strategy] A file with a class, and its line in make_reduction(). Nothing else knows which
// one runs: plans say when start_in_host(), start() and finish() come.
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
  ShardedState sharded;                  // whose gradients are wanted: the whole, or pieces
  bool reduce_each_micro_batch = false;  // wants Assignment::kStrided
  bool cut_exchanges = false;            // see [Note: chunked exchange]; for groups that span machines
  DType dtype = DType::kFloat32;  // of everything but the leaf of the current backward; 16-bit excludes kFast
};

/// The gradient of a bucket. `leaf` and `sums` are [padded]; after a sharded exchange `sums` holds this
/// rank's piece.
struct GradSum {
  Tensor leaf;                // of the current backward; fp32 until it ends
  std::vector<bool> written;  // by slot, in the leaf
  ReductionStack stack;
  std::vector<Tensor> sums;  // of the stack's entries
};

/// The exchange of a bucket that has started.
struct GradExchange {
  int bucket = 0;
  int micro_batch = -1;                   // -1: of the whole step
  std::vector<Tensor> sources, received;  // by round
  std::vector<Chunk> chunks;
  std::vector<Work> in_host_works;  // of two levels, by chunk
  bool has_started = false;         // what follows them
  std::vector<Work> works;          // by chunk, and by round in it
};

class GradReduction {
 public:
  GradReduction(const BatchLayout& batch, const GradReductionOptions& options, const DataAxis& axis)
      : batch_(batch), options_(options), axis_(axis) {}
  virtual ~GradReduction() = default;

  /// What leaves are counted as.
  virtual MemoryCategory leaf_category() const { return MemoryCategory::kGradients; }
  /// Whether ranks have pieces of the sum after an exchange, also where the whole is wanted.
  virtual bool sums_pieces() const { return true; }
  /// Whether each chunk's sum is complete once the chunk has arrived.
  virtual bool completes_chunks() const { return false; }

  /// `sum.leaf` is complete: takes it, or leaves it to the next backward or to start().
  virtual void add_leaf(Context& /*ctx*/, GradSum& /*sum*/, int /*micro_batch*/) {}
  /// On an axis of two levels, first: starts to sum `sum` inside of the host.
  virtual void start_in_host(Context& ctx, GradSum& sum, GradExchange& exchange) = 0;
  /// Starts to exchange `sum` with the other ranks, or of two levels the host's sums with the other hosts.
  /// Sets all of `exchange` but bucket, micro_batch and chunks.
  virtual void start(Context& ctx, GradSum& sum, GradExchange& exchange) = 0;
  /// Waits for the exchange and adds. `chunk_is_summed` is called for each chunk if completes_chunks().
  virtual void finish(Context& ctx, GradSum& sum, GradExchange& exchange,
                      const std::function<void(const Chunk&)>& chunk_is_summed) = 0;
  /// In place of start() and finish() where there is one rank.
  virtual void sum_alone(Context& /*ctx*/, GradSum& /*sum*/) {}
  /// All exchanges of the step are finished: leaves one sum.
  virtual void complete(Context& /*ctx*/, GradSum& /*sum*/) {}

 protected:
  /// Pushes a complete subtree onto the stack and joins what can be joined.
  static void push(Context& ctx, GradSum& sum, const Tensor& subtree_sum, Subtree subtree);
  /// Adds what the stack holds in tree order.
  static void finish_stack(Context& ctx, GradSum& sum);
  Tensor receive_buffer(Context& ctx, std::int64_t elems) const {
    return ctx.empty({elems}, options_.dtype, MemoryCategory::kCommunication);
  }
  /// Starts to send each source's chunks to the ranks that own their pieces; of two levels, as soon as the
  /// host's sum of each is complete.
  void start_all_to_all(Context& ctx, GradExchange& exchange) const;
  /// True if start_in_host() comes before start().
  bool sums_in_host() const { return axis_.is_hierarchical(); }

  const BatchLayout batch_;
  const GradReductionOptions options_;
  const DataAxis axis_;
};

/// The strategy for these options. Throws Error(kInvalidInput) where they exclude each other.
std::unique_ptr<GradReduction> make_reduction(const BatchLayout& batch, const GradReductionOptions& options,
                                              const DataAxis& axis);

// Each defined in its own file.
std::unique_ptr<GradReduction> once_a_step(const BatchLayout&, const GradReductionOptions&, const DataAxis&);
std::unique_ptr<GradReduction> each_micro_batch(const BatchLayout&, const GradReductionOptions&,
                                                const DataAxis&);
std::unique_ptr<GradReduction> library_reduction(const BatchLayout&, const GradReductionOptions&,
                                                 const DataAxis&);

}  // namespace trireme
