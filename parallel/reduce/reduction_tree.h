// The one binary tree in which micro-batch gradients (and losses) are added, whoever computes them.
//
// [Note: canonical reduction] Leaves are the global micro-batches g = 0 .. M-1. A complete subtree of level k
// covers leaves [i 2^k, (i+1) 2^k) and is the sum of its two halves, left + right. When M is no power of two,
// the maximal complete subtrees, from left to right s0 s1 ... sn, are added from the right: s0 + (s1 + ( ...
// + sn)). A rank that owns a contiguous run of leaves adds what complete subtrees lie inside of its run, with
// a stack like a binary counter; what is left, its partial sums, is exchanged and the same rules finish the
// tree. So the additions and their operands are the same for every assignment of leaves to ranks.
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

/// Walks leaves in ascending order; the stack holds the complete subtrees not yet joined.
class ReductionStack {
 public:
  /// Pushes one subtree that starts where the last one ended. Returns how many times the two topmost entries
  /// are to be joined (left += right) so that the stack holds maximal complete subtrees again.
  int push(Subtree subtree);
  const std::vector<Subtree>& entries() const { return entries_; }

 private:
  std::vector<Subtree> entries_;
};

/// The partial sums left after leaves [first, first + count), in order.
std::vector<Subtree> partial_sums(std::int64_t first, std::int64_t count);
/// How many these are: found without walking the leaves.
std::int64_t num_partial_sums(std::int64_t first, std::int64_t count);

/// Adds `values` as leaves 0 .. n-1 of the tree in fp32: how losses of micro-batches become the loss of a
/// step.
float tree_sum(std::vector<float> values);

/// One addition: buffers[target] += buffers[source].
struct Addition {
  int target = 0;
  int source = 0;
  bool operator==(const Addition&) const = default;
};

/// The additions that finish the tree over M leaves, given all ranks' partial sums in order of their leaves:
/// afterwards buffer 0 holds the sum.
std::vector<Addition> finish_tree(const std::vector<Subtree>& partials);

}  // namespace trireme
