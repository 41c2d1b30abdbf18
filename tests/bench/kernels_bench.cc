// Rates of the cpu kernels at the shapes of GPT-2 124M (micro-batch 4, context 512) and of nanoGPT's small
// model, beside oneDNN's own sgemm on the same products.
//
//     kernels_bench [--benchmark_filter=Matmul] [--threads=2]
//
// Counters: FLOP/s of products, B/s of what a kernel must read and write at least. Times are of the calling
// thread (CPU) and of the clock: on a busy machine compare CPU times of one thread.
#include <benchmark/benchmark.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "runtime/base/buffer.h"

namespace trireme {
namespace {

int num_threads = 2;

/// A rank's memory and the backend's table.
class Bench {
 public:
  Bench() { backend_.bind_thread(exec_); }
  const Backend* operator->() const { return &backend_; }
  const KernelContext& exec() const { return exec_; }

  /// Uniform in [-1, 1), rounded to `dtype`.
  TensorView random(const Shape& shape, DType dtype) {
    const TensorView values = random(shape), view = empty(shape, dtype);
    backend_.cast(exec_, {.x = values, .y = view});
    return view;
  }
  TensorView random(const Shape& shape) {
    const TensorView view = empty(shape, DType::kFloat32);
    std::minstd_rand generator(1);
    for (std::int64_t i = 0; i < view.num_elems(); ++i) {
      view.as<float>()[i] = static_cast<float>(generator()) * (2.0f / 2147483647.0f) - 1.0f;
    }
    return view;
  }
  TensorView tokens(const Shape& shape, std::int32_t vocab) {
    const TensorView view = empty(shape, DType::kInt32);
    std::minstd_rand generator(1);
    for (std::int64_t i = 0; i < view.num_elems(); ++i) {
      view.as<std::int32_t>()[i] = static_cast<std::int32_t>(generator() % vocab);
    }
    return view;
  }
  TensorView scalar(float value) {
    const TensorView view = empty({}, DType::kFloat32);
    *view.as<float>() = value;
    return view;
  }

 private:
  TensorView empty(const Shape& shape, DType dtype) {
    const auto bytes = static_cast<std::size_t>(shape.num_elems() * size_bytes(dtype));
    buffers_.emplace_back(allocator_, bytes, MemoryCategory::kActivations);
    return {buffers_.back().data(), dtype, shape};
  }

  const Backend& backend_ = cpu_backend();
  std::shared_ptr<Allocator> allocator_ =
      std::make_shared<Allocator>(Device{}, backend_.make_memory_source({}));
  std::vector<Buffer> buffers_;
  KernelContext exec_{.num_threads = num_threads, .allocator = allocator_.get()};
};

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void count_floats(benchmark::State& state, double floats) {
  state.counters["B/s"] = benchmark::Counter(
      floats * sizeof(float), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

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
    {"nano/head", 'N', 'T', 768, 65, 128},
};

/// How a product or an attention is computed.
struct Mode {
  const char* name;
  DType dtype = DType::kFloat32;
  MathMode math = MathMode::kFp32;
};

constexpr Mode kExact{"fp32"};
constexpr Mode kOtherModes[] = {
    {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}, {"tf32", DType::kFloat32, MathMode::kTf32}};

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
    bench->matmul(bench.exec(), {.a = o.a,
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
    bench->matmul(bench.exec(), {.a = o.a,
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

struct Sequences {
  const char* name;
  std::int64_t samples, seq_len;
  int heads;
  std::int64_t head_dim;
  float dropout_p;
};

constexpr Sequences kSequences[] = {{"nano", 12, 64, 4, 32, 0.0f},
                                    {"gpt2_T512", 4, 512, 12, 64, 0.0f},
                                    {"gpt2_T512_dropout", 4, 512, 12, 64, 0.1f},
                                    {"gpt2_T1024", 2, 1024, 12, 64, 0.0f}};

struct AttentionTensors {
  TensorView qkv, out, lse, dout, dqkv;
};

AttentionTensors attention_tensors(Bench& bench, const Sequences& s, DType dtype) {
  const std::int64_t width = s.heads * s.head_dim;
  const Shape inner{s.samples, s.seq_len, width}, outer{s.samples, s.seq_len, 3 * width};
  return {bench.random(outer, dtype), bench.random(inner, dtype),
          bench.random({s.samples, s.heads, s.seq_len}), bench.random(inner, dtype),
          bench.random(outer, dtype)};
}

// Operations below the diagonal: what the mathematics needs.
double causal_flops(const Sequences& s, int num_products) {
  return static_cast<double>(num_products * s.samples * s.heads * s.seq_len * (s.seq_len + 1) * s.head_dim);
}

void attention_fwd(benchmark::State& state, const Sequences& s, const Mode& mode) {
  Bench bench;
  const AttentionTensors t = attention_tensors(bench, s, mode.dtype);
  for (auto _ : state) {
    bench->attention_fwd(bench.exec(), {.qkv = t.qkv,
                                        .out = t.out,
                                        .lse = t.lse,
                                        .num_heads = s.heads,
                                        .scale = 0.125f,
                                        .math = mode.math,
                                        .dropout_p = s.dropout_p});
  }
  count_flops(state, causal_flops(s, 2));
}

void attention_bwd(benchmark::State& state, const Sequences& s, const Mode& mode) {
  Bench bench;
  const AttentionTensors t = attention_tensors(bench, s, mode.dtype);
  bench->attention_fwd(bench.exec(),
                       {.qkv = t.qkv, .out = t.out, .lse = t.lse, .num_heads = s.heads, .scale = 0.125f});
  for (auto _ : state) {
    bench->attention_bwd(bench.exec(), {.dout = t.dout,
                                        .qkv = t.qkv,
                                        .out = t.out,
                                        .lse = t.lse,
                                        .dqkv = t.dqkv,
                                        .num_heads = s.heads,
                                        .scale = 0.125f,
                                        .math = mode.math,
                                        .dropout_p = s.dropout_p});
  }
  count_flops(state, causal_flops(s, 5));
}

struct Rows {
  const char* name;
  std::int64_t rows, cols;
};

constexpr Rows kWidths[] = {{"nano", 768, 128}, {"gpt2", 2048, 768}};
constexpr Rows kHiddens[] = {{"nano", 768, 512}, {"gpt2", 2048, 3072}};
constexpr Rows kVocabs[] = {{"nano", 768, 65}, {"gpt2", 2048, 50257}};

void layer_norm_fwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView x = bench.random({r.rows, r.cols}), y = bench.random({r.rows, r.cols});
  const TensorView gamma = bench.random({r.cols}), mean = bench.random({r.rows}),
                   rstd = bench.random({r.rows});
  for (auto _ : state) {
    bench->layer_norm_fwd(bench.exec(),
                          {.x = x, .gamma = gamma, .beta = gamma, .y = y, .mean = mean, .rstd = rstd});
  }
  count_floats(state, 2.0 * static_cast<double>(r.rows * r.cols));
}

void layer_norm_bwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView x = bench.random({r.rows, r.cols}), dy = bench.random({r.rows, r.cols});
  const TensorView dx = bench.random({r.rows, r.cols}), gamma = bench.random({r.cols});
  const TensorView dgamma = bench.random({r.cols}), dbeta = bench.random({r.cols});
  const TensorView mean = bench.random({r.rows}), rstd = bench.random({r.rows});
  for (auto _ : state) {
    bench->layer_norm_bwd(bench.exec(), {.dy = dy,
                                         .x = x,
                                         .gamma = gamma,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .dx_add = dx,
                                         .dx = dx,
                                         .dgamma = dgamma,
                                         .dbeta = dbeta});
  }
  count_floats(state, 4.0 * static_cast<double>(r.rows * r.cols));
}

void activation_bwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView dy = bench.random({r.rows, r.cols}), pre = bench.random({r.rows, r.cols});
  const TensorView dx = bench.random({r.rows, r.cols});
  for (auto _ : state) bench->activation_bwd(bench.exec(), {.dy = dy, .pre = pre, .dx = dx});
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void column_sum(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView x = bench.random({r.rows, r.cols}), out = bench.random({r.cols});
  for (auto _ : state) bench->column_sum(bench.exec(), {.x = x, .out = out});
  count_floats(state, static_cast<double>(r.rows * r.cols));
}

void add(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView a = bench.random({r.rows, r.cols}), b = bench.random({r.rows, r.cols});
  for (auto _ : state) bench->add(bench.exec(), {.a = a, .b = b, .out = a});
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void dropout(benchmark::State& state, const Rows& r) {
  Bench bench;
  const Shape shape{4, r.rows * r.cols / 4};
  const TensorView x = bench.random(shape), y = bench.random(shape);
  for (auto _ : state) bench->dropout(bench.exec(), {.x = x, .y = y, .p = 0.1f});
  count_floats(state, 2.0 * static_cast<double>(r.rows * r.cols));
}

void softmax_cross_entropy(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView logits = bench.random({r.rows, r.cols}), loss = bench.scalar(0.0f);
  const TensorView targets = bench.tokens({r.rows}, static_cast<std::int32_t>(r.cols));
  for (auto _ : state) {
    bench->softmax_cross_entropy(
        bench.exec(), {.logits = logits, .targets = targets, .loss = loss, .write_gradient = true});
  }
  count_floats(state, 2.0 * static_cast<double>(r.rows * r.cols));
}

void embedding_fwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView table = bench.random({50257, r.cols}), positions = bench.random({1024, r.cols});
  const TensorView tokens = bench.tokens({4, r.rows / 4}, 50257), x = bench.random({4, r.rows / 4, r.cols});
  for (auto _ : state) {
    bench->embedding_fwd(bench.exec(), {.tokens = tokens, .table = table, .positions = positions, .x = x});
  }
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void embedding_bwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView table = bench.random({50257, r.cols}), positions = bench.random({1024, r.cols});
  const TensorView tokens = bench.tokens({4, r.rows / 4}, 50257), x = bench.random({4, r.rows / 4, r.cols});
  for (auto _ : state) {
    bench->embedding_bwd(bench.exec(), {.dx = x,
                                        .tokens = tokens,
                                        .dtable = table,
                                        .dpositions = positions,
                                        .dtable_mode = GradientMode::kAccumulate,
                                        .dpositions_mode = GradientMode::kAccumulate});
  }
  count_floats(state, 5.0 * static_cast<double>(r.rows * r.cols));
}

constexpr std::int64_t kParameters[] = {806'912, 38'597'632};

void adamw(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView p = bench.random({n}), m = bench.random({n}), v = bench.random({n}), g = bench.random({n});
  std::memset(v.data, 0, static_cast<std::size_t>(n) * sizeof(float));
  const TensorView one = bench.scalar(1e-4f), step = bench.tokens({}, 1);
  *step.as<std::int32_t>() = 3;
  for (auto _ : state) {
    bench->adamw(
        bench.exec(),
        {.param = p, .exp_avg = m, .exp_avg_sq = v, .grad = g, .lr = one, .clip = one, .step = step});
  }
  count_floats(state, 7.0 * static_cast<double>(n));
}

void squared_norm_blocks(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView x = bench.random({n}), partials = bench.random({n / kNormBlock});
  for (auto _ : state) bench->squared_norm_blocks(bench.exec(), {.x = x, .partials = partials});
  count_floats(state, static_cast<double>(n));
}

void fill_zero(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView x = bench.random({n});
  for (auto _ : state) bench->fill_zero(bench.exec(), x);
  count_floats(state, static_cast<double>(n));
}

template <class Function, class... Case>
void register_case(const char* kernel, const std::string& name, Function function, const Case&... c) {
  benchmark::RegisterBenchmark((std::string(kernel) + "/" + name).c_str(), function, c...)
      ->MeasureProcessCPUTime()
      ->UseRealTime();
}

void register_mode(const Mode& mode) {
  const auto named = [&](const char* name) { return std::string(name) + "/" + mode.name; };
  for (const Product& p : kProducts) register_case("matmul", named(p.name), matmul, p, mode);
  register_case("matmul_bias_gelu", named("gpt2/fc"), matmul_bias_gelu, kProducts[2], mode);
  for (const Sequences& s : kSequences) {
    register_case("attention_fwd", named(s.name), attention_fwd, s, mode);
    register_case("attention_bwd", named(s.name), attention_bwd, s, mode);
  }
}

void register_all() {
  for (const Product& p : kProducts) {
    register_case("sgemm", p.name, sgemm, p);
    register_case("matmul", p.name, matmul, p, kExact);
  }
  register_case("matmul_bias_gelu", "gpt2/fc", matmul_bias_gelu, kProducts[2], kExact);
  register_case("matmul_bias_gelu", "nano/fc", matmul_bias_gelu, kProducts[10], kExact);
  for (const Sequences& s : kSequences) {
    register_case("attention_fwd", s.name, attention_fwd, s, kExact);
    register_case("attention_bwd", s.name, attention_bwd, s, kExact);
  }
  for (const Mode& mode : kOtherModes) register_mode(mode);
  for (const Rows& r : kWidths) {
    register_case("layer_norm_fwd", r.name, layer_norm_fwd, r);
    register_case("layer_norm_bwd", r.name, layer_norm_bwd, r);
    register_case("add", r.name, add, r);
    register_case("dropout", r.name, dropout, r);
    register_case("embedding_fwd", r.name, embedding_fwd, r);
    register_case("embedding_bwd", r.name, embedding_bwd, r);
  }
  for (const Rows& r : kHiddens) {
    register_case("activation_bwd", r.name, activation_bwd, r);
    register_case("column_sum", r.name, column_sum, r);
  }
  for (const Rows& r : kVocabs) register_case("softmax_cross_entropy", r.name, softmax_cross_entropy, r);
  for (const std::int64_t n : kParameters) {
    register_case("adamw", std::to_string(n), adamw, n);
    register_case("squared_norm_blocks", std::to_string(n), squared_norm_blocks, n);
    register_case("fill_zero", std::to_string(n), fill_zero, n);
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) trireme::num_threads = std::atoi(argv[i] + 10);
  }
  trireme::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
