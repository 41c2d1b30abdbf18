#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kRows = 64;  // of a piece

std::size_t row_bytes(ConstTensorView x) {
  return static_cast<std::size_t>(x.shape[1] * size_bytes(x.dtype));
}

}  // namespace

void run_op(const KernelContext& exec, const ConcatChannelsArgs& args) {
  check_one_float_type("concat_channels", {args.a, args.b, args.y});
  const std::size_t a = row_bytes(args.a), b = row_bytes(args.b);
  assert(a + b == row_bytes(args.y));
  for_each_range(exec, args.y.shape[0], kRows, [&](std::int64_t first, std::int64_t count) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + count); ++i) {
      char* y = args.y.as<char>() + i * (a + b);
      std::memcpy(y, args.a.as<char>() + i * a, a);
      std::memcpy(y + a, args.b.as<char>() + i * b, b);
    }
  });
}

void run_op(const KernelContext& exec, const SplitChannelsArgs& args) {
  check_one_float_type("split_channels", {args.x, args.a, args.b});
  const std::size_t a = row_bytes(args.a), b = row_bytes(args.b);
  assert(a + b == row_bytes(args.x));
  for_each_range(exec, args.x.shape[0], kRows, [&](std::int64_t first, std::int64_t count) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + count); ++i) {
      const char* x = args.x.as<char>() + i * (a + b);
      std::memcpy(args.a.as<char>() + i * a, x, a);
      std::memcpy(args.b.as<char>() + i * b, x + a, b);
    }
  });
}

}  // namespace trireme::cpu
