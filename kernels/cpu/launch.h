// The common parts of a cpu kernel: dtype check, loop over pieces, scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "kernels/backend.h"

namespace trireme::cpu {

/// Throws Error(kUnsupported) naming `op` and the dtype unless all defined views are fp32.
void check_fp32(const char* op, std::initializer_list<ConstTensorView> views);

struct IndexCheck {
  const char* op;
  const char* what;         // "token id"
  std::int64_t lowest = 0;  // lowest allowed index
  std::int64_t count = 0;   // number of indexed rows; indices must be smaller
};
/// Throws Error(kInvalidInput) naming the op, position and value of the first int32 index outside its table.
/// Dataset readers check their files. This check protects programs that pass their own batches.
void check_indices(const IndexCheck& check, ConstTensorView indices);

// With fewer element operations, a parallel region costs more than it saves.
inline constexpr std::int64_t kSerialWork = 16384;

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Runs body(piece) for piece in [0, num_pieces) on the rank's threads. Neighbouring pieces go to one thread.
/// The pieces must depend on shape alone and be independent of each other. `work` is the number of element
/// operations of all pieces. `body` must not throw.
template <class Body>
void for_each_piece(const KernelContext& exec, std::int64_t num_pieces, std::int64_t work, const Body& body) {
  if (exec.num_threads <= 1 || num_pieces <= 1 || work < kSerialWork) {
    for (std::int64_t piece = 0; piece < num_pieces; ++piece) body(piece);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(exec.num_threads)
  for (std::int64_t piece = 0; piece < num_pieces; ++piece) body(piece);
}

/// Runs body(first, count) for consecutive ranges of [0, n). All but the last have `range` elements.
template <class Body>
void for_each_range(const KernelContext& exec, std::int64_t n, std::int64_t range, const Body& body) {
  for_each_piece(exec, ceil_div(n, range), n, [&](std::int64_t piece) {
    const std::int64_t first = piece * range;
    body(first, std::min(range, n - first));
  });
}

/// Runs body(first, count) for ranges of columns, one per thread, where columns do not mix. A column's result
/// does not depend on its range, so this split alone may depend on the number of threads. Wide ranges keep
/// the reads of a row in few pages.
template <class Body>
void for_each_column_range(const KernelContext& exec, std::int64_t cols, std::int64_t work,
                           const Body& body) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  const std::int64_t range = std::max(4 * kLine, ceil_div(ceil_div(cols, exec.num_threads), kLine) * kLine);
  for_each_piece(exec, ceil_div(cols, range), work, [&](std::int64_t piece) {
    const std::int64_t first = piece * range;
    body(first, std::min(range, cols - first));
  });
}

/// Scratch memory of one kernel call, counted as MemoryCategory::kWorkspace.
class Workspace {
 public:
  Workspace(const KernelContext& exec, std::int64_t num_floats)
      : allocator_(*exec.allocator),
        bytes_(static_cast<std::size_t>(num_floats) * sizeof(float)),
        data_(allocator_.allocate(bytes_, MemoryCategory::kWorkspace)) {}
  ~Workspace() { allocator_.deallocate(data_, bytes_, MemoryCategory::kWorkspace); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  float* data() const { return static_cast<float*>(data_); }

 private:
  Allocator& allocator_;
  std::size_t bytes_;
  void* data_;
};

/// Scratch memory of one kernel call: one part per thread of the rank, or `num_parts` parts.
class ThreadScratch {
 public:
  ThreadScratch(const KernelContext& exec, std::int64_t num_floats)
      : ThreadScratch(exec, num_floats, exec.num_threads) {}
  ThreadScratch(const KernelContext& exec, std::int64_t num_floats, int num_parts);

  /// The part of the calling thread. Null if no floats were requested.
  float* mine() const;
  float* of(int part) const { return all_ ? all_->data() + part * pitch_ : nullptr; }

 private:
  std::int64_t pitch_;
  std::optional<Workspace> all_;
};

}  // namespace trireme::cpu
