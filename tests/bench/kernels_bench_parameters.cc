// Ops on a flat buffer of parameters.
#include <cstring>

#include "tests/bench/kernels_bench.h"

namespace trireme::bench {
namespace {

constexpr std::int64_t kParameters[] = {806'912, 38'597'632};

void adamw(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView p = bench.random({n}), m = bench.random({n}), v = bench.random({n}), g = bench.random({n});
  std::memset(v.data, 0, static_cast<std::size_t>(n) * sizeof(float));
  const TensorView one = bench.scalar(1e-4f), step = bench.tokens({}, 1);
  *step.as<std::int32_t>() = 3;
  for (auto _ : state) {
    bench.run(AdamWArgs{
        .param = p, .exp_avg = m, .exp_avg_sq = v, .grad = g, .lr = one, .clip = one, .step = step});
  }
  count_floats(state, 7.0 * static_cast<double>(n));
}

void squared_norm_blocks(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView x = bench.random({n}), partials = bench.random({n / kNormBlock});
  for (auto _ : state) bench.run(SquaredNormBlocksArgs{.x = x, .partials = partials});
  count_floats(state, static_cast<double>(n));
}

void fill_zero(benchmark::State& state, std::int64_t n) {
  Bench bench;
  const TensorView x = bench.random({n});
  for (auto _ : state) bench->fill_zero(bench.exec(), x);
  count_floats(state, static_cast<double>(n));
}

}  // namespace

void register_parameters() {
  for (const std::int64_t n : kParameters) {
    register_case("adamw", std::to_string(n), adamw, n);
    register_case("squared_norm_blocks", std::to_string(n), squared_norm_blocks, n);
    register_case("fill_zero", std::to_string(n), fill_zero, n);
  }
}

}  // namespace trireme::bench
