// The context that every kernel gets, and the enums that several structs of arguments share.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "runtime/base/allocator.h"
#include "runtime/base/device.h"
#include "runtime/base/tensor_view.h"

namespace trireme {

/// The execution resources of one rank.
struct KernelContext {
  Device device;
  void* stream = nullptr;          // of Backend::make_stream; null where the backend has none
  int num_threads = 1;             // threads this rank may use on the host
  Allocator* allocator = nullptr;  // for MemoryCategory::kWorkspace
};

/// Store mode of a kernel for a gradient in memory that outlives the call.
enum class GradientMode : std::uint8_t {
  kIgnore,      // not needed; the view is undefined
  kOverwrite,   // view = gradient
  kAccumulate,  // view += gradient
};

enum class Transpose : std::uint8_t { kNo, kYes };

/// The rounding of fp32 inputs of a product. 16-bit inputs are always exact.
enum class MathMode : std::uint8_t {
  kFp32,  // as they are
  kTf32,  // rounded to 10 mantissa bits (to nearest, ties to even), accumulated in fp32
};

// [Note: tensors of a call] Every struct of arguments has a function visit_views(args, visit), which calls
// visit(view, use) for each tensor of the call, undefined ones included. The operands that define the size
// come first. It is used to count the traffic of a call, and to run a call on other memory. `args` is not
// const, so that views may be redirected.

/// The traffic of a tensor of a call, independent of the kernel.
enum class ViewUse : std::uint8_t {
  kRead,
  kReadTwice,  // statistics over all of it are needed before the first result
  kReadRows,   // only the rows that tokens select, as many as the result has
  kWrite,
  kUpdate,  // read and written
};

constexpr ViewUse use_of(GradientMode mode) {
  return mode == GradientMode::kAccumulate ? ViewUse::kUpdate : ViewUse::kWrite;
}

/// visit(view, use) for each of `views`.
template <ViewUse use, class Visit, class... Views>
void visit_each(Visit& visit, Views&... views) {
  (visit(views, use), ...);
}

}  // namespace trireme
