#include <cassert>

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

struct Rectifier {
  __device__ float operator()(float x) const { return x < 0.0f ? 0.0f : x; }  // NaN stays NaN
};

struct RectifierBackward {
  __device__ float operator()(float dy, float y) const { return y <= 0.0f ? 0.0f : dy; }
};

}  // namespace

void run_op(const KernelContext& exec, const ReluArgs& args) {
  const std::int64_t n = args.y.num_elems();
  assert(args.x.num_elems() == n);
  check_dtype("relu", args.y.dtype, {args.x});
  for_float_type("relu", args.y.dtype, [&]<class T>(T) {
    map<kPack<T>>(exec, "relu", Rectifier{}, n, args.y.as<T>(), args.x.as<T>());
  });
}

void run_op(const KernelContext& exec, const ReluBwdArgs& args) {
  const std::int64_t n = args.dx.num_elems();
  assert(args.dy.num_elems() == n && args.y.num_elems() == n);
  check_dtype("relu_bwd", args.dx.dtype, {args.dy, args.y});
  for_float_type("relu_bwd", args.dx.dtype, [&]<class T>(T) {
    map<kPack<T>>(exec, "relu_bwd", RectifierBackward{}, n, args.dx.as<T>(), args.dy.as<T>(), args.y.as<T>());
  });
}

}  // namespace trireme::cuda
