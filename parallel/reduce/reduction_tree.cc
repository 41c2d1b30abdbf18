#include "parallel/reduce/reduction_tree.h"

#include "runtime/base/error.h"

namespace trireme {

int ReductionStack::push(Subtree subtree) {
  TRIREME_CHECK(entries_.empty() || entries_.back().first + entries_.back().size() == subtree.first,
                "reduction tree: leaf {} does not follow its predecessor", subtree.first);
  entries_.push_back(subtree);
  int joins = 0;
  while (entries_.size() >= 2) {
    Subtree& left = entries_[entries_.size() - 2];
    const bool siblings = left.level == entries_.back().level && left.first % (2 * left.size()) == 0;
    if (!siblings) break;
    ++left.level;
    entries_.pop_back();
    ++joins;
  }
  return joins;
}

std::vector<Subtree> partial_sums(std::int64_t first, std::int64_t count) {
  ReductionStack stack;
  for (std::int64_t leaf = first; leaf < first + count; ++leaf) stack.push({leaf, 0});
  return stack.entries();
}

std::int64_t num_partial_sums(std::int64_t first, std::int64_t count) {
  std::int64_t num = 0;
  for (const std::int64_t end = first + count; first < end; ++num) {
    std::int64_t size = 1;
    while (first % (2 * size) == 0 && first + 2 * size <= end) size *= 2;
    first += size;
  }
  return num;
}

std::vector<Addition> finish_tree(const std::vector<Subtree>& partials) {
  std::vector<Addition> additions;
  ReductionStack stack;
  std::vector<int> buffers;  // of the stack's entries
  for (std::size_t i = 0; i < partials.size(); ++i) {
    const int joins = stack.push(partials[i]);
    buffers.push_back(static_cast<int>(i));
    for (int j = 0; j < joins; ++j) {
      const int right = buffers.back();
      buffers.pop_back();
      additions.push_back({buffers.back(), right});
    }
  }
  while (buffers.size() >= 2) {  // the rest, from the right
    const int right = buffers.back();
    buffers.pop_back();
    additions.push_back({buffers.back(), right});
  }
  return additions;
}

float tree_sum(std::vector<float> values) {
  TRIREME_CHECK(!values.empty(), "the sum of no values is not defined");
  std::vector<Subtree> leaves;
  for (std::size_t i = 0; i < values.size(); ++i) leaves.push_back({static_cast<std::int64_t>(i), 0});
  for (const Addition& add : finish_tree(leaves)) {
    values[static_cast<std::size_t>(add.target)] += values[static_cast<std::size_t>(add.source)];
  }
  return values[0];
}

}  // namespace trireme
