// Sums of products over tensor chunks: one product per leaf, then additions.
#include <bit>
#include <cassert>
#include <deque>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/matmul/matmul_epilogue.h"
#include "kernels/cuda/matmul/plain_product.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quantize.h"
#include "kernels/product_workspace.h"
#include "runtime/base/error.h"

namespace trireme::cuda {
namespace {

void check_dtypes(const ProductSumArgs& args) {
  const DType in = args.products.front().a.dtype;
  bool fits = !is_fp8(in) && args.d.dtype == DType::kFloat32 &&
              (!args.bias.defined() || args.bias.dtype == DType::kFloat32);
  for (const ProductSumArgs::Factors& factors : args.products) {
    fits = fits && factors.a.dtype == in && factors.b.dtype == in;
  }
  if (fits) return;
  throw Error(ErrorCode::kUnsupported, "product_sum on cuda does not support {} x {} to {}", name(in),
              name(args.products.front().b.dtype), name(args.d.dtype));
}

// Computes the product over range `group` of K.
void multiply_range(const KernelContext& exec, const ProductSumArgs& args,
                    const ProductSumArgs::Factors& factors, int group, const TensorView& d) {
  const std::int64_t k = factors.a.shape[1], range = k / args.groups, first = group * range;
  const bool tb = args.transpose_b == Transpose::kYes;
  const Product product{.m = d.shape[0],
                        .n = d.shape[1],
                        .k = range,
                        .transpose_b = args.transpose_b,
                        .in = factors.a.dtype,
                        .math = args.math,
                        .a_pitch = k,
                        .b_pitch = tb ? k : d.shape[1]};
  const auto from = [](const ConstTensorView& view, std::int64_t elem) {
    return static_cast<const char*>(view.data) + elem * size_bytes(view.dtype);
  };
  plain_product(
      exec, product,
      {.a = from(factors.a, first), .b = from(factors.b, tb ? first : first * d.shape[1]), .d = d.data});
}

// Computes a whole product with its optional bias, with the bits of a separate matmul.
void multiply_whole(const KernelContext& exec, const ProductSumArgs& args,
                    const ProductSumArgs::Factors& factors, const ConstTensorView& bias,
                    const TensorView& d) {
  run_op(exec, MatmulArgs{.a = factors.a,
                          .b = factors.b,
                          .d = d,
                          .transpose_b = args.transpose_b,
                          .math = args.math,
                          .bias = bias});
}

}  // namespace

void run_op(const KernelContext& exec, const ProductSumArgs& args) {
  check_dtypes(args);
  assert(std::has_single_bit(args.products.size()) &&
         std::has_single_bit(static_cast<unsigned>(args.groups)));
  if (args.d.num_elems() == 0) return;
  const int leaves = static_cast<int>(args.products.size()) * args.groups;
  std::deque<Workspace> waiting;
  std::vector<TensorView> nodes{args.d};
  for (int i = 0; i < product_sum_waiting(args); ++i) {
    const auto bytes = static_cast<std::size_t>(args.d.num_elems()) * sizeof(float);
    nodes.emplace_back(waiting.emplace_back(exec, bytes).as<void>(), DType::kFloat32, args.d.shape);
  }
  for (int leaf = 0; leaf < leaves; ++leaf) {
    const auto bits = static_cast<unsigned>(leaf);
    auto at = static_cast<std::size_t>(std::popcount(bits));
    const auto& factors = args.products[static_cast<std::size_t>(leaf / args.groups)];
    if (args.groups == 1) {
      multiply_whole(exec, args, factors, leaf == 0 ? args.bias : ConstTensorView{}, nodes[at]);
    } else {
      multiply_range(exec, args, factors, leaf % args.groups, nodes[at]);
    }
    for (int merges = std::countr_one(bits); merges > 0; --merges, --at) {
      run_op(exec, AddArgs{.a = nodes[at - 1], .b = nodes[at], .out = nodes[at - 1]});
    }
    // All groups of the first product are summed in node 0 now, so its bias can be added.
    if (args.groups > 1 && leaf + 1 == args.groups && args.bias.defined()) {
      matmul_epilogue(exec, {.product = args.d, .bias = args.bias, .d = args.d});
    }
  }
}

}  // namespace trireme::cuda
