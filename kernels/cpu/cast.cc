#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const CastArgs& args) {
  check_one_float_type("cast", {args.x});
  check_one_float_type("cast", {args.y});
  assert(args.x.num_elems() == args.y.num_elems());
  if (args.x.dtype == args.y.dtype && args.center == 0.0f) return copy(exec, args.y, args.x);
  for_each_range(exec, args.y.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    write(args.y, first, count, shifted(read(args.x, first, count, buffer), -args.center, count, buffer));
  });
}

}  // namespace trireme::cpu
