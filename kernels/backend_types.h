// The arguments that every entry of the operator table gets, and the choices that several of them share.
#pragma once

#include <cstdint>

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

enum class Activation : std::uint8_t {
  kNone,
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in GPT-2
};

enum class Transpose : std::uint8_t { kNo, kYes };

/// The rounding of fp32 inputs of a product; 16-bit inputs are always exact.
enum class MathMode : std::uint8_t {
  kFp32,  // as they are
  kTf32,  // rounded to 10 mantissa bits (to nearest, ties to even), accumulated in fp32
};

}  // namespace trireme
