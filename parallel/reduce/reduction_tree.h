// The binary tree in which micro-batch gradients (and losses) are added, independent of which rank computes
// them.
//
// [Note: canonical reduction] Leaves are the global micro-batches g = 0 .. M-1. A complete subtree of level k
// covers leaves [i 2^k, (i+1) 2^k) and is the sum of its two halves, left + right. If M is not a power of
// two, the maximal complete subtrees, from left to right s0 s1 ... sn, are added from the right: s0 + (s1 + (
// ... + sn)). A rank with a contiguous run of leaves first adds the complete subtrees within its run, with a
// stack like a binary counter. The remaining partial sums are exchanged, and the same rules finish the tree.
// So the additions and their operands are the same for every assignment of leaves to ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// A complete subtree: leaves [first, first + 2^level).
struct Subtree {
  std::int64_t first = 0;
  int level = 0;
  std::int64_t size() const { return std::int64_t{1} << level; }
  bool operator==(const Subtree&) const = default;
};

/// Processes leaves in ascending order; the stack holds the complete subtrees not yet joined.
class ReductionStack {
 public:
  /// Pushes a subtree that starts where the last one ended. Returns how many times to join the two topmost
  /// entries (left += right) so that the stack holds maximal complete subtrees again.
  int push(Subtree subtree);
  const std::vector<Subtree>& entries() const { return entries_; }

 private:
  std::vector<Subtree> entries_;
};

/// The partial sums left after leaves [first, first + count), in order.
std::vector<Subtree> partial_sums(std::int64_t first, std::int64_t count);
/// Their number, computed without visiting the leaves.
std::int64_t num_partial_sums(std::int64_t first, std::int64_t count);

/// Adds `values` as leaves 0 .. n-1 of the tree in fp32: the loss of a step from the losses of its
/// micro-batches.
float tree_sum(std::vector<float> values);

/// One addition: buffers[target] += buffers[source].
struct Addition {
  int target = 0;
  int source = 0;
  bool operator==(const Addition&) const = default;
};

/// The additions that finish the tree over M leaves, given the partial sums of all ranks in order of their
/// leaves. Afterwards buffer 0 holds the sum.
std::vector<Addition> finish_tree(const std::vector<Subtree>& partials);

}  // namespace trireme
