// Attention forward for one head: online softmax over tiles of keys (Dao et al. 2022).
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/vector_math.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

/// The scratch of one head. Tiles of scores have the pitch kBlock, all others the padded head dim.
struct Scratch {
  std::int64_t width;  // head dim, padded
  float *k, *v;        // [S padded, width]
  float* q;            // [kBlock, width]
  float* q_columns;    // [width, kBlock], scaled
  float* p;            // [kBlock keys, kBlock queries]
  float* mask;         // likewise
  float* acc;          // [kBlock, width]
};

std::int64_t scratch_floats(std::int64_t num_keys, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  return 2 * round_up(num_keys, kBlock) * width + 3 * kBlock * width + 2 * kBlock * kBlock;
}

Scratch lay_out(float* from, std::int64_t num_keys, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  const std::int64_t all = round_up(num_keys, kBlock) * width, block = kBlock * width;
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

/// Running statistics of kBlock queries. The sums are of exp(score - max).
struct Softmax {
  float max[kBlock], sum[kBlock], rescale[kBlock];
};

// For kColumnQueries queries: p = exp(scores - new maximum), zero where masked. Updates the sums, and the
// factor that rescales earlier tiles.
[[gnu::noinline]] void exponentiate_columns(const ScoreTile& t, float* p, Softmax& softmax,
                                            std::int64_t query) {
  const bool first = t.is_first;
  Vector max[kColumns], sum[kColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    max[c] = first ? Vector{} - kInfinity : load(softmax.max + query + c * kLanes);
  }
  for_each_patch(t, query, [&](auto patch) {
    const auto scores = patch.seen(patch.load(p), Vector{} - kInfinity);
#pragma GCC unroll 8
    for (int i = 0; i < patch.kCount; ++i) {
      max[patch.column(i)] = larger(scores.v[i], max[patch.column(i)]);
    }
  });
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    const std::int64_t at = query + c * kLanes;
    sum[c] = Vector{};
    if (!first) {
      const Vector rescale = exp_below(load(softmax.max + at) - max[c]);
      sum[c] = load(softmax.sum + at) * rescale;
      store(softmax.rescale + at, rescale);
    }
    store(softmax.max + at, max[c]);
  }
  for_each_patch(t, query, [&](auto patch) {
    const auto scores = patch.load(p);
    const auto e = patch.seen(
        exp_below(group_of<patch.kCount>([&](int i) { return scores.v[i] - max[patch.column(i)]; })),
        Vector{});
    patch.store(p, e);
#pragma GCC unroll 8
    for (int i = 0; i < patch.kCount; ++i) sum[patch.column(i)] += e.v[i];
  });
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) store(softmax.sum + query + c * kLanes, sum[c]);
}

void add_tile(const AttentionHead& h, const ScoreTile& t, ConstTile k, const Scratch& s, Softmax& softmax) {
  products_of_tile(t, h, {k.data + t.first_key * k.pitch, k.pitch}, {s.q_columns, kBlock}, s.p);
  hide_other_keys(t, h, s.p);
  for (std::int64_t q = 0; q < kBlock; q += kColumnQueries) exponentiate_columns(t, s.p, softmax, q);
  zero_padded_keys(t, s.p);
  if (!t.is_first) {
    for (std::int64_t q = 0; q < t.padded_queries; ++q) {
      for (std::int64_t c = 0; c < s.width; ++c) s.acc[q * s.width + c] *= softmax.rescale[q];
    }
  }
  if (h.dropout_p > 0.0f) {
    dropout_mask(t, h, s.mask);
    for (std::int64_t i = 0; i < t.padded_keys * kBlock; ++i) s.p[i] *= s.mask[i];
  }
  add_over_keys(t, s.p, {s.v + t.first_key * s.width, s.width}, s.width, {s.acc, s.width},
                t.is_first ? Store::kOverwrite : Store::kAccumulate);
}

[[gnu::noinline]] void write_block(const AttentionFwdHead& a, std::int64_t first_query, std::int64_t queries,
                                   const Scratch& s, const Softmax& softmax) {
  const AttentionHead& h = a.head;
  const Element element = output_element(h);
  float lse[kBlock], inverse[kBlock];
  for (std::int64_t q = 0; q < kBlock; q += kLanes) {
    const Vector sum = load(softmax.sum + q);
    store(lse + q, load(softmax.max + q) + log_approx(sum));
    store(inverse + q, 1.0f / sum);
  }
  __builtin_memcpy(a.lse + first_query, lse, static_cast<std::size_t>(queries) * sizeof(float));
  write_rows(advance(a.out, element, first_query * h.out_pitch), element, h.out_pitch, {s.acc, s.width},
             queries, h.head_dim, [&](std::int64_t q) { return inverse[q]; });
}

void load_columns(const AttentionHead& h, std::int64_t first, std::int64_t queries, const Scratch& s) {
  const ConstRows q{advance(h.q, h.element, first * h.q_pitch), h.element, h.q_pitch};
  if (h.element == Element::kFp32 && queries % kLanes == 0 && h.head_dim == s.width) {
    transpose(s.q_columns, kBlock, static_cast<const float*>(q.data), q.pitch, queries, s.width);
  } else {
    pack_rows(s.q, s.width, kBlock, q, queries, h.head_dim);
    transpose(s.q_columns, kBlock, s.q, s.width, kBlock, s.width);
  }
  scale_columns(h, s.q_columns, s.width);
}

void run(const AttentionFwdHead& a) {
  const AttentionHead& h = a.head;
  const Scratch s = lay_out(a.scratch, h.num_keys, h.head_dim);
  const std::int64_t padded_len = round_up(h.num_keys, kStrip);
  const ConstTile k = rows_of_keys(h, h.k, s.k, s.width);
  pack_rows(s.v, s.width, padded_len, {h.v, h.element, h.kv_pitch}, h.num_keys, h.head_dim);
  if (leaves_gaps(h)) {
    for (std::int64_t i = 0; i < kBlock * kBlock; ++i) s.p[i] = s.mask[i] = 0.0f;
  }
  for (std::int64_t first = 0; first < h.num_queries; first += kBlock) {
    const std::int64_t queries = smaller(kBlock, h.num_queries - first);
    load_columns(h, first, queries, s);
    Softmax softmax;
    const KeyRange keys = seen_keys(h, first);
    for (std::int64_t key = keys.first; key < keys.end; key += kBlock) {
      add_tile(h, score_tile(h, key, first), k, s, softmax);
    }
    write_block(a, first, queries, s, softmax);
  }
}

}  // namespace

const AttentionFwdNumerics attention_fwd_numerics{.scratch_floats = scratch_floats, .run = run};

}  // namespace trireme::cpu::TRIREME_ISA
