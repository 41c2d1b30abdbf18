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
  float* q;            // [kBlock, width], scaled
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

// Of the queries from `query` on, kLanes of them: p = exp(scores - new maximum), zero where the mask hides;
// sums and the factor by which earlier tiles shrink.
void exponentiate_column(const ScoreTile& t, float* p, Softmax& softmax, std::int64_t query) {
  const std::int64_t unmasked = end_of_unmasked(t, query), end = end_of_column(t, query);
  const Vector old_max = load(softmax.max + query);
  Vector max = old_max;
  for (std::int64_t k = 0; k < end; ++k) {
    Vector s = load(p + k * kBlock + query);
    if (k >= unmasked) s = where_seen(t, k, query, s, Vector{} - kInfinity);
    max = s > max ? s : max;
  }
  const Vector rescale = exp_approx(old_max - max);
  Vector sum = load(softmax.sum + query) * rescale;
  for (std::int64_t k = 0; k < unmasked; ++k) {
    const Vector e = exp_approx(load(p + k * kBlock + query) - max);
    store(p + k * kBlock + query, e);
    sum += e;
  }
  for (std::int64_t k = unmasked; k < end; ++k) {
    const Vector e = where_seen(t, k, query, exp_approx(load(p + k * kBlock + query) - max), Vector{});
    store(p + k * kBlock + query, e);
    sum += e;
  }
  store(softmax.max + query, max);
  store(softmax.sum + query, sum);
  store(softmax.rescale + query, rescale);
}

void add_tile(const AttentionHead& h, const ScoreTile& t, const Scratch& s, Softmax& softmax) {
  products_of_tile(t, h, {s.k + t.first_key * s.width, s.width}, {s.q_columns, kBlock}, s.p);
  for (std::int64_t q = 0; q < kBlock; q += kLanes) exponentiate_column(t, s.p, softmax, q);
  if (t.first_key > 0) {
    for (std::int64_t q = 0; q < t.padded_queries; ++q) {
      for (std::int64_t c = 0; c < s.width; ++c) s.acc[q * s.width + c] *= softmax.rescale[q];
    }
  }
  if (h.dropout_p > 0.0f) {
    dropout_mask(t, h, s.mask);
    for (std::int64_t i = 0; i < t.padded_keys * kBlock; ++i) s.p[i] *= s.mask[i];
  }
  add_over_keys(t, s.p, {s.v + t.first_key * s.width, s.width}, s.width, s.acc);
}

void write_block(const AttentionFwdHead& a, std::int64_t first_query, std::int64_t queries, const Scratch& s,
                 const Softmax& softmax) {
  const AttentionHead& h = a.head;
  const Element element = output_element(h);
  for (std::int64_t q = 0; q < queries; ++q) {
    write_rows(advance(a.out, element, (first_query + q) * h.out_pitch), element, h.out_pitch,
               s.acc + q * s.width, s.width, 1, h.head_dim, 1.0f / softmax.sum[q]);
    a.lse[first_query + q] = softmax.max[q] + __builtin_logf(softmax.sum[q]);
  }
}

void run(const AttentionFwdHead& a) {
  const AttentionHead& h = a.head;
  const Scratch s = lay_out(a.scratch, h.seq_len, h.head_dim);
  const std::int64_t padded_len = round_up(h.seq_len, kStrip);
  pack_rows(s.k, s.width, padded_len, {h.k, h.element, h.qkv_pitch}, h.seq_len, h.head_dim, 1.0f);
  pack_rows(s.v, s.width, padded_len, {h.v, h.element, h.qkv_pitch}, h.seq_len, h.head_dim, 1.0f);
  if (leaves_gaps(h)) {
    for (std::int64_t i = 0; i < kBlock * kBlock; ++i) s.p[i] = s.mask[i] = 0.0f;
  }
  for (std::int64_t first = 0; first < h.seq_len; first += kBlock) {
    const std::int64_t queries = smaller(kBlock, h.seq_len - first);
    const ConstRows q{advance(h.q, h.element, first * h.qkv_pitch), h.element, h.qkv_pitch};
    pack_rows(s.q, s.width, kBlock, q, queries, h.head_dim, h.scale);
    transpose(s.q_columns, kBlock, s.q, s.width, kBlock, s.width);
    for (std::int64_t i = 0; i < kBlock * s.width; ++i) s.acc[i] = 0.0f;
    Softmax softmax;
    for (std::int64_t q = 0; q < kBlock; ++q) {
      softmax.max[q] = -kInfinity;
      softmax.sum[q] = 0.0f;
    }
    for (std::int64_t key = 0; key < end_of_keys(h, first); key += kBlock) {
      add_tile(h, score_tile(h, key, first), s, softmax);
    }
    write_block(a, first, queries, s, softmax);
  }
}

}  // namespace

const AttentionFwdNumerics attention_fwd_numerics{.scratch_floats = scratch_floats, .run = run};

}  // namespace trireme::cpu::TRIREME_ISA
