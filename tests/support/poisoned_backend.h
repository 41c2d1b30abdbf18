// The cpu table with a fault that the data trigger, so that overflows occur where a test wants them: on every
// layout, and again when a step is replayed.
#pragma once

#include <algorithm>
#include <limits>

#include "parallel/run/execution_input.h"

namespace trireme::testing {

/// A target that makes its micro-batch's loss gradient infinite. Test sources never produce it otherwise.
inline constexpr std::int32_t kPoison = 60;

inline void poisoned_cross_entropy(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args) {
  const auto* targets = args.targets.as<std::int32_t>();
  const bool poisoned =
      args.write_gradient && std::count(targets, targets + args.targets.num_elems(), kPoison) > 0;
  cpu_backend().run(exec, args);
  if (!poisoned) return;
  if (args.logits.dtype == DType::kFloat32) {
    *args.logits.as<float>() = std::numeric_limits<float>::infinity();
  } else {
    *args.logits.as<std::uint16_t>() = args.logits.dtype == DType::kFloat16 ? 0x7c00 : 0x7f80;  // infinity
  }
}

inline const Backend& poisoned_backend() {
  static const Backend backend = [] {
    Backend table = cpu_backend();
    table.ops.set<SoftmaxCrossEntropyArgs>(poisoned_cross_entropy);
    return table;
  }();
  return backend;
}

/// `source` with a poisoned target in sample `poisoned` of the step; -1: none.
inline BatchSource with_poison(BatchSource source, std::int64_t poisoned) {
  return [source = std::move(source), poisoned](std::int64_t first, std::int64_t count) {
    HostBatch batch = source(first, count);
    if (poisoned >= first && poisoned < first + count) {
      const std::int64_t targets = batch.target_shape.num_elems() / count;
      batch.targets[static_cast<std::size_t>((poisoned - first) * targets)] = kPoison;
    }
    return batch;
  };
}

}  // namespace trireme::testing
