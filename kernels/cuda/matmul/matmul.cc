// Matrix products. The library computes as much as possible in one call; a native kernel does the rest of the
// epilogue.
#include <cassert>
#include <optional>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/matmul/matmul_epilogue.h"
#include "kernels/cuda/matmul/matmul_library.h"
#include "kernels/cuda/matmul/native_matmul.h"
#include "kernels/cuda/matmul/plain_product.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quantize.h"
#include "kernels/product_workspace.h"
#include "runtime/base/error.h"

namespace trireme::cuda {
namespace {

Product product_of(const MatmulArgs& args) {
  const bool ta = args.transpose_a == Transpose::kYes;
  return {.m = args.d.shape[0],
          .n = args.d.shape[1],
          .k = args.a.shape[ta ? 0 : 1],
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .in = args.a.dtype,
          .out = args.d.dtype,
          .math = args.math,
          .a_pitch = args.a_pitch,
          .d_pitch = args.d_pitch};
}

bool runs_along_k(const MatmulArgs& args) {
  return args.transpose_a == Transpose::kNo && args.transpose_b == Transpose::kYes;
}

void check_dtypes(const MatmulArgs& args) {
  const DType in = args.a.dtype, out = args.d.dtype;
  const bool scaled = args.a_inverse_scale.defined();
  bool fits = scaled == args.b_inverse_scale.defined() && scaled == is_fp8(in) &&
              args.b.dtype == (scaled ? DType::kE4m3 : in) && (!scaled || runs_along_k(args)) &&
              !(scaled && args.bias_grad.defined()) &&
              (out == (scaled ? DType::kBFloat16 : in) || out == DType::kFloat32);
  for (const ConstTensorView& view : {args.bias, ConstTensorView(args.pre_activation), args.residual}) {
    fits = fits && (!view.defined() || view.dtype == out);
  }
  if (fits) return;
  throw Error(ErrorCode::kUnsupported, "matmul on cuda does not take {} x {} to {} with such an epilogue",
              name(in), name(args.b.dtype), name(out));
}

Epilogue gelu_epilogue(const MatmulArgs& args) {
  if (args.pre_activation.defined()) return args.bias.defined() ? Epilogue::kGeluAuxBias : Epilogue::kGeluAux;
  return args.bias.defined() ? Epilogue::kGeluBias : Epilogue::kGelu;
}

// The product of decoded fp8 codes.
void run_decoded(const KernelContext& exec, const Product& product, const ProductPointers& pointers) {
  const Shape a_shape{product.m, product.k}, b_shape{product.n, product.k};
  const Workspace a(exec, static_cast<std::size_t>(a_shape.num_elems()) * 2);
  const Workspace b(exec, static_cast<std::size_t>(b_shape.num_elems()) * 2);
  const auto scale = [](const void* data) { return ConstTensorView{data, DType::kFloat32, Shape{}}; };
  dequantize(exec, {pointers.a, product.in, a_shape}, scale(pointers.a_inverse_scale), a.as<void>());
  dequantize(exec, {pointers.b, DType::kE4m3, b_shape}, scale(pointers.b_inverse_scale), b.as<void>());
  Product decoded = product;
  decoded.in = DType::kBFloat16;
  ProductPointers numbers = pointers;
  numbers.a = a.as<void>(), numbers.b = b.as<void>();
  plain_product(exec, decoded, numbers);
}

// Runs the product, then the rest of the epilogue as a native kernel. matmul_workspace() counts the memory.
// The intermediate is fp32, because 16 bits would add a rounding that the contract does not allow. An fp32
// result needs no extra memory if pre_activation or d can hold the intermediate.
void run_in_two(const KernelContext& exec, const MatmulArgs& args, Product product,
                ProductPointers pointers) {
  const bool in_place = args.residual.defined() && args.residual.data == args.d.data;
  const bool is_fp32 = args.d.dtype == DType::kFloat32;
  std::optional<Workspace> apart;
  if (is_fp32 && args.pre_activation.defined()) {
    pointers.d = args.pre_activation.data;
  } else if (!is_fp32 || in_place || args.d_pitch > 0) {
    apart.emplace(exec, static_cast<std::size_t>(args.d.num_elems()) * sizeof(float));
    pointers.d = apart->as<void>();
    product.d_pitch = 0;
  }
  product.out = DType::kFloat32;
  bool has_bias = false;
  // The library's bias has the product's dtype; for fp8 it is bf16.
  if (is_fp32 && args.bias.defined() && product.k > 0 && !is_fp8(product.in)) {
    Product with_bias = product;
    with_bias.epilogue = Epilogue::kBias;
    pointers.bias = args.bias.data;
    Stream& stream = stream_of(exec);
    has_bias = stream.matmul_library().run(stream.get(), with_bias, pointers);
    pointers.bias = nullptr;
  }
  if (!has_bias) plain_product(exec, product, pointers);
  MatmulEpilogue rest{.product = {pointers.d, DType::kFloat32, args.d.shape},
                      .activation = args.activation,
                      .residual = args.residual,
                      .d = args.d,
                      .d_pitch = args.d_pitch};
  if (!has_bias) rest.bias = args.bias;
  const bool has_pre = has_bias || !args.bias.defined();
  if (!has_pre || args.pre_activation.data != pointers.d) rest.pre_activation = args.pre_activation;
  matmul_epilogue(exec, rest);
}

// d += product.
void accumulate(const KernelContext& exec, const MatmulArgs& args, const Product& product,
                const ProductPointers& pointers) {
  Product sum = product;
  sum.add_c = true;
  ProductPointers with_sum = pointers;
  with_sum.c = pointers.d;
  Stream& stream = stream_of(exec);
  if (stream.matmul_library().run(stream.get(), sum, with_sum)) return;
  MatmulArgs in_two = args;
  in_two.residual = args.d;
  run_in_two(exec, in_two, product, pointers);
}

void multiply(const KernelContext& exec, const MatmulArgs& args) {
  Product product = product_of(args);
  [[maybe_unused]] const bool ta = args.transpose_a == Transpose::kYes,
                              tb = args.transpose_b == Transpose::kYes;
  assert(args.a.shape[ta ? 1 : 0] == product.m && args.b.shape[tb ? 0 : 1] == product.n &&
         args.b.shape[tb ? 1 : 0] == product.k);
  assert(ta || !args.bias_grad.defined());
  assert(args.d_pitch == 0 || (!args.residual.defined() && !args.pre_activation.defined()));
  if (args.bias_grad.defined()) {
    run_op(exec,
           ColumnSumArgs{
               .x = args.a, .out = args.bias_grad, .mode = args.bias_grad_mode, .x_pitch = args.a_pitch});
  }
  if (product.m == 0 || product.n == 0) return;
  ProductPointers pointers{.a = args.a.data,
                           .b = args.b.data,
                           .d = args.d.data,
                           .a_inverse_scale = args.a_inverse_scale.data,
                           .b_inverse_scale = args.b_inverse_scale.data};
  if (args.mode == GradientMode::kAccumulate) {
    if (product.k == 0) return;
    return accumulate(exec, args, product, pointers);
  }
  if (product.k == 0) return run_in_two(exec, args, product, pointers);

  Stream& stream = stream_of(exec);
  Product fused = product;
  pointers.bias = args.bias.data;
  if (args.activation == Activation::kNone && !args.pre_activation.defined()) {
    // The sum starts from the residual, whether it is `d` or another tensor, so that aliasing changes no
    // bits.
    fused.epilogue = args.bias.defined() ? Epilogue::kBias : Epilogue::kNone;
    fused.add_c = args.residual.defined();
    pointers.c = args.residual.data;
    if (stream.matmul_library().run(stream.get(), fused, pointers)) return;
    pointers.c = nullptr;
  } else if (library_may_activate(args)) {
    fused.epilogue = gelu_epilogue(args);
    pointers.aux = args.pre_activation.data;
    if (stream.matmul_library().run(stream.get(), fused, pointers)) return;
    pointers.aux = nullptr;
  }
  pointers.bias = nullptr;
  run_in_two(exec, args, product, pointers);
}

void require_fp8(const KernelContext& exec) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, exec.device.index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, exec.device.index),
        "cudaDeviceGetAttribute");
  if (10 * major + minor >= 89) return;
  throw Error(
      ErrorCode::kUnsupported,
      "matmul on cuda: fp8 needs a card of sm_89 (Ada), sm_90 (Hopper) or later; device {} is sm_{}{}",
      exec.device.index, major, minor);
}

}  // namespace

void plain_product(const KernelContext& exec, const Product& product, const ProductPointers& pointers) {
  assert(!product.add_c && product.epilogue == Epilogue::kNone);
  if (product.k == 0) return fill_zero(exec, {pointers.d, product.out, Shape{product.m, product.n}});
  Stream& stream = stream_of(exec);
  if (stream.matmul_library().run(stream.get(), product, pointers)) return;
  is_fp8(product.in) ? run_decoded(exec, product, pointers) : native_matmul(exec, product, pointers);
}

void run_op(const KernelContext& exec, const MatmulArgs& args) {
  check_dtypes(args);
  if (args.a_inverse_scale.defined()) require_fp8(exec);
  multiply(exec, args);
}

}  // namespace trireme::cuda
