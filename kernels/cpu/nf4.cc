// Numbers of NF4 codes: see [Note: nf4].
#include "runtime/base/nf4.h"

#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

template <class T>
std::span<const T> elems_of(ConstTensorView view) {
  return {view.as<T>(), static_cast<std::size_t>(view.num_elems())};
}

}  // namespace

void run_op(const KernelContext& exec, const DequantizeNf4Args& args) {
  static_assert(kBuffer % kNf4Block == 0);
  check_one_float_type("dequantize_nf4", {args.y});
  check_fp32("dequantize_nf4", {args.scales});
  assert(args.codes.num_elems() == (args.y.num_elems() + 1) / 2);
  assert(args.scales.num_elems() == num_nf4_scales(args.y.num_elems()));
  const ConstNf4Weight weight{.codes = elems_of<std::uint8_t>(args.codes),
                              .scale_codes = elems_of<std::uint8_t>(args.scale_codes),
                              .scales = elems_of<float>(args.scales)};
  for_each_range(exec, args.y.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    dequantize_nf4(weight, first, {buffer, static_cast<std::size_t>(count)});
    write(args.y, first, count, buffer);
  });
}

}  // namespace trireme::cpu
