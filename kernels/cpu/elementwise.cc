#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kRange = 8192;

}  // namespace

void add(const KernelContext& exec, const AddArgs& args) {
  check_fp32("add", {args.a, args.b, args.out});
  const std::int64_t n = args.out.num_elems();
  assert(args.a.num_elems() == n && args.b.num_elems() == n);
  for_each_range(exec, n, kRange, [&](std::int64_t first, std::int64_t count) {
    numerics().elementwise->add(args.a.as<float>() + first, args.b.as<float>() + first,
                                args.out.as<float>() + first, count);
  });
}

void scale(const KernelContext& exec, const ScaleArgs& args) {
  check_fp32("scale", {args.x, args.factor});
  const float factor = *args.factor.as<float>();
  for_each_range(exec, args.x.num_elems(), kRange, [&](std::int64_t first, std::int64_t count) {
    numerics().elementwise->scale(args.x.as<float>() + first, factor, count);
  });
}

}  // namespace trireme::cpu
