// Matrix products, beside oneDNN's own sgemm.
#include <oneapi/dnnl/dnnl.h>

#include "tests/bench/kernels_bench.h"

namespace trireme::bench {
namespace {

struct Product {
  const char* name;
  char ta, tb;
  std::int64_t m, n, k;
};

constexpr Product kProducts[] = {
    {"gpt2/qkv", 'N', 'T', 2048, 2304, 768},      {"gpt2/proj", 'N', 'T', 2048, 768, 768},
    {"gpt2/fc", 'N', 'T', 2048, 3072, 768},       {"gpt2/fc2", 'N', 'T', 2048, 768, 3072},
    {"gpt2/fc_dx", 'N', 'N', 2048, 768, 3072},    {"gpt2/fc_dw", 'T', 'N', 3072, 768, 2048},
    {"gpt2/head", 'N', 'T', 2048, 50257, 768},    {"gpt2/head_dx", 'N', 'N', 2048, 768, 50257},
    {"gpt2/head_dw", 'T', 'N', 50257, 768, 2048}, {"nano/qkv", 'N', 'T', 768, 384, 128},
    {"nano/fc", 'N', 'T', 768, 512, 128},         {"nano/fc2", 'N', 'T', 768, 128, 512},
    {"nano/fc_dx", 'N', 'N', 768, 128, 512},      {"nano/fc_dw", 'T', 'N', 512, 128, 768},
    {"nano/head", 'N', 'T', 768, 65, 128},        {"vit/qkv", 'N', 'T', 1576, 2304, 768},
    {"vit/qkv_dx", 'N', 'N', 1576, 768, 2304},    {"vit/qkv_dw", 'T', 'N', 2304, 768, 1576},
    {"vit/proj", 'N', 'T', 1576, 768, 768},       {"vit/proj_dx", 'N', 'N', 1576, 768, 768},
    {"vit/proj_dw", 'T', 'N', 768, 768, 1576},    {"vit/fc", 'N', 'T', 1576, 3072, 768},
    {"vit/fc_dx", 'N', 'N', 1576, 768, 3072},     {"vit/fc_dw", 'T', 'N', 3072, 768, 1576},
    {"vit/fc2", 'N', 'T', 1576, 768, 3072},       {"vit/fc2_dx", 'N', 'N', 1576, 3072, 768},
    {"vit/fc2_dw", 'T', 'N', 768, 3072, 1576},
};

constexpr Product kWithActivation[] = {{"gpt2/fc", 'N', 'T', 2048, 3072, 768},
                                       {"nano/fc", 'N', 'T', 768, 512, 128}};

struct Operands {
  TensorView a, b, d;
};

// The gradient of a weight is fp32 in every mode.
Operands operands(Bench& bench, const Product& p, DType dtype = DType::kFloat32) {
  return {bench.random(p.ta == 'T' ? Shape{p.k, p.m} : Shape{p.m, p.k}, dtype),
          bench.random(p.tb == 'T' ? Shape{p.n, p.k} : Shape{p.k, p.n}, dtype),
          bench.random({p.m, p.n}, p.ta == 'T' ? DType::kFloat32 : dtype)};
}

void sgemm(benchmark::State& state, const Product& p) {
  Bench bench;
  const Operands o = operands(bench, p);
  for (auto _ : state) {
    dnnl_sgemm(p.ta, p.tb, p.m, p.n, p.k, 1.0f, o.a.as<float>(), p.ta == 'T' ? p.m : p.k, o.b.as<float>(),
               p.tb == 'T' ? p.k : p.n, 0.0f, o.d.as<float>(), p.n);
  }
  count_flops(state, 2.0 * static_cast<double>(p.m * p.n * p.k));
}

void matmul(benchmark::State& state, const Product& p, const Mode& mode) {
  Bench bench;
  const Operands o = operands(bench, p, mode.dtype);
  const auto transpose = [](char c) { return c == 'T' ? Transpose::kYes : Transpose::kNo; };
  for (auto _ : state) {
    bench.run(MatmulArgs{.a = o.a,
                         .b = o.b,
                         .d = o.d,
                         .transpose_a = transpose(p.ta),
                         .transpose_b = transpose(p.tb),
                         .math = mode.math});
  }
  count_flops(state, 2.0 * static_cast<double>(p.m * p.n * p.k));
}

void matmul_bias_gelu(benchmark::State& state, const Product& p, const Mode& mode) {
  Bench bench;
  const Operands o = operands(bench, p, mode.dtype);
  const TensorView bias = bench.random({p.n}, mode.dtype), pre = bench.random({p.m, p.n}, mode.dtype);
  for (auto _ : state) {
    bench.run(MatmulArgs{.a = o.a,
                         .b = o.b,
                         .d = o.d,
                         .transpose_b = Transpose::kYes,
                         .math = mode.math,
                         .bias = bias,
                         .activation = Activation::kGeluTanh,
                         .pre_activation = pre});
  }
  count_flops(state, 2.0 * static_cast<double>(p.m * p.n * p.k));
}

}  // namespace

void register_products(const Mode& mode) {
  for (const Product& p : kProducts) {
    if (&mode == &kExact) register_case("sgemm", p.name, sgemm, p);
    register_case("matmul", name_of(p.name, mode), matmul, p, mode);
  }
  for (const Product& p : kWithActivation) {
    register_case("matmul_bias_gelu", name_of(p.name, mode), matmul_bias_gelu, p, mode);
  }
}

}  // namespace trireme::bench
