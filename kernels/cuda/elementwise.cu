#include <cassert>

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

struct Scale {
  const float* factor;  // null: use `constant`
  float constant;
  __device__ float operator()(float x) const { return x * (factor != nullptr ? *factor : constant); }
};

}  // namespace

void run_op(const KernelContext& exec, const AddArgs& args) {
  const std::int64_t n = args.out.num_elems();
  assert(args.a.num_elems() == n && args.b.num_elems() == n);
  check_dtype("add", args.out.dtype, {args.a, args.b});
  for_float_type("add", args.out.dtype, [&]<class T>(T) {
    map<kPack<T>>(exec, "add", Sum{}, n, args.out.as<T>(), args.a.as<T>(), args.b.as<T>());
  });
}

void run_op(const KernelContext& exec, const MulArgs& args) {
  const std::int64_t n = args.out.num_elems();
  assert(args.a.num_elems() == n && args.b.num_elems() == n);
  check_dtype("mul", args.out.dtype, {args.a, args.b});
  for_float_type("mul", args.out.dtype, [&]<class T>(T) {
    map<kPack<T>>(exec, "mul", Product{}, n, args.out.as<T>(), args.a.as<T>(), args.b.as<T>());
  });
}

void run_op(const KernelContext& exec, const ScaleArgs& args) {
  check_dtype("scale", DType::kFloat32, {args.factor});
  for_float_type("scale", args.x.dtype, [&]<class T>(T) {
    T* x = args.x.as<T>();
    map<kPack<T>>(exec, "scale", Scale{args.factor.as<float>(), args.constant}, args.x.num_elems(), x, x);
  });
}

}  // namespace trireme::cuda
