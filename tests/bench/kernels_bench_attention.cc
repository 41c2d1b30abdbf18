// Attention, causal.
#include "tests/bench/kernels_bench.h"

namespace trireme::bench {
namespace {

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

// Operations below the diagonal, the minimum.
double causal_flops(const Sequences& s, int num_products) {
  return static_cast<double>(num_products * s.samples * s.heads * s.seq_len * (s.seq_len + 1) * s.head_dim);
}

void attention_fwd(benchmark::State& state, const Sequences& s, const Mode& mode) {
  Bench bench;
  const AttentionTensors t = attention_tensors(bench, s, mode.dtype);
  for (auto _ : state) {
    bench.run(AttentionFwdArgs{.qkv = t.qkv,
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
  bench.run(
      AttentionFwdArgs{.qkv = t.qkv, .out = t.out, .lse = t.lse, .num_heads = s.heads, .scale = 0.125f});
  for (auto _ : state) {
    bench.run(AttentionBwdArgs{.dout = t.dout,
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

}  // namespace

void register_attention(const Mode& mode) {
  for (const Sequences& s : kSequences) {
    register_case("attention_fwd", name_of(s.name, mode), attention_fwd, s, mode);
    register_case("attention_bwd", name_of(s.name, mode), attention_bwd, s, mode);
  }
}

}  // namespace trireme::bench
