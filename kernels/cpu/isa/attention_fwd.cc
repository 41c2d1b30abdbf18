// Attention forward for one head: online softmax over tiles of keys (Dao et al. 2022).
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/isa/vector_math.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

/// The scratch of one head. Pitch of tiles of scores is kBlock, of all else the padded head dim.
struct Scratch {
  std::int64_t width;  // head dim, padded
  float *k, *v;        // [T padded, width]
  float* q;            // [kBlock, width]
  float* q_columns;    // [width, kBlock]
  float* p;            // [kBlock keys, kBlock queries]
  float* mask;         // likewise
  float* acc;          // [kBlock, width]
};

std::int64_t scratch_floats(std::int64_t seq_len, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  return 2 * round_up(seq_len, kBlock) * width + 3 * kBlock * width + 2 * kBlock * kBlock;
}

Scratch lay_out(float* from, std::int64_t seq_len, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  const std::int64_t all = round_up(seq_len, kBlock) * width, block = kBlock * width;
  Scratch s{};
  s.width = width;
  s.k = from;
  s.v = s.k + all;
  s.q = s.v + all;
  s.q_columns = s.q + block;
  s.acc = s.q_columns + block;
  s.p = s.acc + block;
  s.mask = s.p + kBlock * kBlock;
  return s;
}

/// Running statistics of kBlock queries.
struct Softmax {
  float max[kBlock], sum[kBlock], rescale[kBlock];
};

// Of a group of queries: p = exp(scale * (scores - new maximum)), zero where the mask hides; sums and the
// factor by which earlier tiles shrink.
[[gnu::noinline]] void exponentiate_group(const ScoreTile& t, float* p, float scale, Softmax& softmax,
                                          std::int64_t query) {
  const bool first = t.first_key == 0;
  Vector max[kGroup], scaled_max[kGroup], sum[kGroup];
#pragma GCC unroll 4
  for (int v = 0; v < kGroup; ++v) {
    max[v] = first ? Vector{} - kInfinity : load(softmax.max + query + v * kLanes);
  }
  for_each_of_group(t, query, [&]<int kVector, bool kMasked>(std::int64_t key) {
    const std::int64_t at = query + kVector * kLanes;
    Vector s = load(p + key * kBlock + at);
    if constexpr (kMasked) s = where_seen(key, at, s, Vector{} - kInfinity);
    max[kVector] = larger(s, max[kVector]);
  });
#pragma GCC unroll 4
  for (int v = 0; v < kGroup; ++v) {
    const std::int64_t at = query + v * kLanes;
    scaled_max[v] = scale * max[v];
    sum[v] = Vector{};
    if (!first) {
      const Vector rescale = exp_below(scale * load(softmax.max + at) - scaled_max[v]);
      sum[v] = load(softmax.sum + at) * rescale;
      store(softmax.rescale + at, rescale);
    }
    store(softmax.max + at, max[v]);
  }
  for_each_of_group(t, query, [&]<int kVector, bool kMasked>(std::int64_t key) {
    const std::int64_t at = query + kVector * kLanes;
    Vector e = exp_below(scale * load(p + key * kBlock + at) - scaled_max[kVector]);
    if constexpr (kMasked) e = where_seen(key, at, e, Vector{});
    store(p + key * kBlock + at, e);
    sum[kVector] += e;
  });
#pragma GCC unroll 4
  for (int v = 0; v < kGroup; ++v) store(softmax.sum + query + v * kLanes, sum[v]);
}

void add_tile(const AttentionHead& h, const ScoreTile& t, const Scratch& s, Softmax& softmax) {
  products_of_tile(t, h, {s.k + t.first_key * s.width, s.width}, {s.q_columns, kBlock}, s.p);
  for (std::int64_t q = 0; q < kBlock; q += kGroupQueries) exponentiate_group(t, s.p, h.scale, softmax, q);
  zero_padded_keys(t, s.p);
  if (t.first_key > 0) {
    for (std::int64_t q = 0; q < t.padded_queries; ++q) {
      for (std::int64_t c = 0; c < s.width; ++c) s.acc[q * s.width + c] *= softmax.rescale[q];
    }
  }
  if (h.dropout_p > 0.0f) {
    dropout_mask(t, h, s.mask);
    for (std::int64_t i = 0; i < t.padded_keys * kBlock; ++i) s.p[i] *= s.mask[i];
  }
  add_over_keys(t, s.p, {s.v + t.first_key * s.width, s.width}, s.width, {s.acc, s.width},
                t.first_key == 0 ? Store::kOverwrite : Store::kAccumulate);
}

[[gnu::noinline]] void write_block(const AttentionFwdHead& a, std::int64_t first_query, std::int64_t queries,
                                   const Scratch& s, const Softmax& softmax) {
  const AttentionHead& h = a.head;
  const Element element = output_element(h);
  float lse[kBlock], inverse[kBlock];
  for (std::int64_t q = 0; q < kBlock; q += kLanes) {
    const Vector sum = load(softmax.sum + q);
    store(lse + q, h.scale * load(softmax.max + q) + log_approx(sum));
    store(inverse + q, 1.0f / sum);
  }
  __builtin_memcpy(a.lse + first_query, lse, static_cast<std::size_t>(queries) * sizeof(float));
  write_rows(advance(a.out, element, first_query * h.out_pitch), element, h.out_pitch, {s.acc, s.width},
             queries, h.head_dim, [&](std::int64_t q) { return inverse[q]; });
}

void run(const AttentionFwdHead& a) {
  const AttentionHead& h = a.head;
  const Scratch s = lay_out(a.scratch, h.seq_len, h.head_dim);
  const std::int64_t padded_len = round_up(h.seq_len, kStrip);
  pack_rows(s.k, s.width, padded_len, {h.k, h.element, h.qkv_pitch}, h.seq_len, h.head_dim);
  pack_rows(s.v, s.width, padded_len, {h.v, h.element, h.qkv_pitch}, h.seq_len, h.head_dim);
  if (leaves_gaps(h)) {
    for (std::int64_t i = 0; i < kBlock * kBlock; ++i) s.p[i] = s.mask[i] = 0.0f;
  }
  for (std::int64_t first = 0; first < h.seq_len; first += kBlock) {
    const std::int64_t queries = smaller(kBlock, h.seq_len - first);
    const ConstRows q{advance(h.q, h.element, first * h.qkv_pitch), h.element, h.qkv_pitch};
    pack_rows(s.q, s.width, kBlock, q, queries, h.head_dim);
    transpose(s.q_columns, kBlock, s.q, s.width, kBlock, s.width);
    Softmax softmax;
    for (std::int64_t key = 0; key < end_of_keys(h, first); key += kBlock) {
      add_tile(h, score_tile(h, key, first), s, softmax);
    }
    write_block(a, first, queries, s, softmax);
  }
}

}  // namespace

const AttentionFwdNumerics attention_fwd_numerics{.scratch_floats = scratch_floats, .run = run};

}  // namespace trireme::cpu::TRIREME_ISA
