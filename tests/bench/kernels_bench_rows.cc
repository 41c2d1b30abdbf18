// Ops on rows of activations.
#include "tests/bench/kernels_bench.h"

namespace trireme::bench {
namespace {

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
    bench.run(LayerNormFwdArgs{.x = x, .gamma = gamma, .beta = gamma, .y = y, .mean = mean, .rstd = rstd});
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
    bench.run(LayerNormBwdArgs{.dy = dy,
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
  for (auto _ : state) bench.run(ActivationBwdArgs{.dy = dy, .pre = pre, .dx = dx});
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void column_sum(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView x = bench.random({r.rows, r.cols}), out = bench.random({r.cols});
  for (auto _ : state) bench.run(ColumnSumArgs{.x = x, .out = out});
  count_floats(state, static_cast<double>(r.rows * r.cols));
}

void add(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView a = bench.random({r.rows, r.cols}), b = bench.random({r.rows, r.cols});
  for (auto _ : state) bench.run(AddArgs{.a = a, .b = b, .out = a});
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void dropout(benchmark::State& state, const Rows& r) {
  Bench bench;
  const Shape shape{4, r.rows * r.cols / 4};
  const TensorView x = bench.random(shape), y = bench.random(shape);
  for (auto _ : state) bench.run(DropoutArgs{.x = x, .y = y, .p = 0.1f});
  count_floats(state, 2.0 * static_cast<double>(r.rows * r.cols));
}

void softmax_cross_entropy(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView logits = bench.random({r.rows, r.cols}), loss = bench.scalar(0.0f);
  const TensorView targets = bench.tokens({r.rows}, static_cast<std::int32_t>(r.cols));
  for (auto _ : state) {
    bench.run(
        SoftmaxCrossEntropyArgs{.logits = logits, .targets = targets, .loss = loss, .write_gradient = true});
  }
  count_floats(state, 2.0 * static_cast<double>(r.rows * r.cols));
}

void embedding_fwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView table = bench.random({50257, r.cols}), positions = bench.random({1024, r.cols});
  const TensorView tokens = bench.tokens({4, r.rows / 4}, 50257), x = bench.random({4, r.rows / 4, r.cols});
  for (auto _ : state) {
    bench.run(EmbeddingFwdArgs{.tokens = tokens, .table = table, .positions = positions, .x = x});
  }
  count_floats(state, 3.0 * static_cast<double>(r.rows * r.cols));
}

void embedding_bwd(benchmark::State& state, const Rows& r) {
  Bench bench;
  const TensorView table = bench.random({50257, r.cols}), positions = bench.random({1024, r.cols});
  const TensorView tokens = bench.tokens({4, r.rows / 4}, 50257), x = bench.random({4, r.rows / 4, r.cols});
  for (auto _ : state) {
    bench.run(EmbeddingBwdArgs{.dx = x,
                               .tokens = tokens,
                               .dtable = table,
                               .dpositions = positions,
                               .dtable_mode = GradientMode::kAccumulate,
                               .dpositions_mode = GradientMode::kAccumulate});
  }
  count_floats(state, 5.0 * static_cast<double>(r.rows * r.cols));
}

}  // namespace

void register_rows() {
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
}

}  // namespace trireme::bench
