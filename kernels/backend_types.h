// The arguments that every entry of the operator table gets, and the choices that several of them share.
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

/// The treatment of a gradient that a kernel computes for memory that lasts longer than itself.
enum class GradientMode : std::uint8_t {
  kIgnore,      // not wanted, the view is undefined
  kOverwrite,   // view = gradient
  kAccumulate,  // view += gradient
};

enum class Transpose : std::uint8_t { kNo, kYes };

/// The rounding of fp32 inputs of a product; 16-bit inputs are always exact.
enum class MathMode : std::uint8_t {
  kFp32,  // as they are
  kTf32,  // rounded to 10 mantissa bits (to nearest, ties to even), accumulated in fp32
};

// [Note: tensors of a call] Beside each struct of arguments stands visit_views(args, visit): visit(view, use)
// for every tensor of the call, undefined ones too; the operands that name its size come first. Whoever
// counts what a call moves, or calls it on other memory, asks it. `args` is no const: views may be given
// other memory.

/// The traffic of a tensor of a call, whatever kernel computes it.
enum class ViewUse : std::uint8_t {
  kRead,
  kReadTwice,  // statistics of all of it are needed before the first result
  kReadRows,   // those that tokens name: as many as the result has
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
