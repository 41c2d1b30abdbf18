// Copies and fills of host memory.
#include <cassert>
#include <cstring>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kRangeBytes = std::int64_t{1} << 20;

void copy_bytes(const KernelContext& exec, void* dst, const void* src, std::int64_t bytes) {
  for_each_range(exec, bytes, kRangeBytes, [=](std::int64_t first, std::int64_t count) {
    std::memcpy(static_cast<char*>(dst) + first, static_cast<const char*>(src) + first,
                static_cast<std::size_t>(count));
  });
}

}  // namespace

void copy_from_host(const KernelContext& exec, TensorView dst, const void* src) {
  copy_bytes(exec, dst.data, src, dst.num_elems() * size_bytes(dst.dtype));
}

void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src) {
  copy_bytes(exec, dst, src.data, src.num_elems() * size_bytes(src.dtype));
}

void copy(const KernelContext& exec, TensorView dst, ConstTensorView src) {
  assert(dst.dtype == src.dtype && dst.num_elems() == src.num_elems());
  copy_bytes(exec, dst.data, src.data, dst.num_elems() * size_bytes(dst.dtype));
}

void fill_zero(const KernelContext& exec, TensorView dst) {
  for_each_range(exec, dst.num_elems() * size_bytes(dst.dtype), kRangeBytes,
                 [data = dst.as<char>()](std::int64_t first, std::int64_t count) {
                   std::memset(data + first, 0, static_cast<std::size_t>(count));
                 });
}

}  // namespace trireme::cpu
