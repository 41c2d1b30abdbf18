#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

namespace {

/// out = combine(a, b), element by element.
template <class Args>
void run_pairs(const KernelContext& exec, const char* op, const Args& args,
               void (*combine)(const float* a, const float* b, float* out, std::int64_t n)) {
  check_one_float_type(op, {args.a, args.b, args.out});
  const std::int64_t n = args.out.num_elems();
  assert(args.a.num_elems() == n && args.b.num_elems() == n);
  for_each_range(exec, n, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float a[kBuffer], b[kBuffer];
    const float* from = read(args.a, first, count, a);
    float* out = place(args.out, first, a);
    combine(from, read(args.b, first, count, b), out, count);
    write(args.out, first, count, out);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const AddArgs& args) {
  run_pairs(exec, "add", args, numerics().elementwise->add);
}

void run_op(const KernelContext& exec, const MulArgs& args) {
  run_pairs(exec, "mul", args, numerics().elementwise->mul);
}

void run_op(const KernelContext& exec, const ScaleArgs& args) {
  check_one_float_type("scale", {args.x});
  check_fp32("scale", {args.factor});
  const float factor = args.factor.data != nullptr ? *args.factor.as<float>() : args.constant;
  for_each_range(exec, args.x.num_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    float buffer[kBuffer];
    read(args.x, first, count, buffer);
    float* x = place(args.x, first, buffer);
    numerics().elementwise->scale(x, factor, count);
    write(args.x, first, count, x);
  });
}

}  // namespace trireme::cpu
