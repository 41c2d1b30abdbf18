// Attention backward for one head. Probabilities are computed again from the log-sum-exp; the sum over keys
// of p * dp is the dot product of out and dout (Dao et al. 2022, appendix B).
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/isa/vector_math.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The scratch of one head. Pitch of tiles of scores and of *_columns is kBlock, of all else the padded head
/// dim.
struct Scratch {
  std::int64_t width;               // head dim, padded
  float *k, *v, *dk, *dv;           // [T padded, width]
  float *q, *dout;                  // [kBlock, width]; q is scaled
  float *q_columns, *dout_columns;  // [width, kBlock]
  float *p, *ds, *mask;             // [kBlock keys, kBlock queries]
  float* dq;                        // [kBlock, width]
  float *lse, *delta;               // [kBlock]
};

std::int64_t scratch_floats(std::int64_t seq_len, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  return 4 * round_up(seq_len, kBlock) * width + 5 * kBlock * width + 3 * kBlock * kBlock + 2 * kBlock;
}

Scratch lay_out(float* from, std::int64_t seq_len, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  const std::int64_t all = round_up(seq_len, kBlock) * width, block = kBlock * width, tile = kBlock * kBlock;
  Scratch s{};
  s.width = width;
  s.k = from;
  s.v = s.k + all;
  s.dk = s.v + all;
  s.dv = s.dk + all;
  s.q = s.dv + all;
  s.dout = s.q + block;
  s.q_columns = s.dout + block;
  s.dout_columns = s.q_columns + block;
  s.dq = s.dout_columns + block;
  s.p = s.dq + block;
  s.ds = s.p + tile;
  s.mask = s.ds + tile;
  s.lse = s.mask + tile;
  s.delta = s.lse + kBlock;
  return s;
}

// Of kLanes queries and one key: p = exp(scores - lse); ds = p * (dp - delta). With dropout, dp and the p
// that meets dout carry the mask.
inline void softmax_bwd_at(const ScoreTile& t, const Scratch& s, const float* mask, std::int64_t key,
                           std::int64_t query, bool masked) {
  const std::int64_t i = key * kBlock + query;
  Vector p = exp_approx(load(s.p + i) - load(s.lse + query));
  Vector dp = load(s.ds + i), dropped = p;
  if (mask != nullptr) {
    dp *= load(mask + i);
    dropped *= load(mask + i);
  }
  Vector ds = p * (dp - load(s.delta + query));
  if (masked) {
    ds = where_seen(t, key, query, ds, Vector{});
    dropped = where_seen(t, key, query, dropped, Vector{});
  }
  store(s.ds + i, ds);
  store(s.p + i, dropped);
}

void softmax_bwd(const ScoreTile& t, const AttentionHead& h, const Scratch& s) {
  const float* mask = nullptr;
  if (h.dropout_p > 0.0f) {
    dropout_mask(t, h, s.mask);
    mask = s.mask;
  }
  for (std::int64_t q = 0; q < kBlock; q += kLanes) {
    const std::int64_t unmasked = end_of_unmasked(t, q), end = end_of_column(t, q);
    for (std::int64_t k = 0; k < unmasked; ++k) softmax_bwd_at(t, s, mask, k, q, false);
    for (std::int64_t k = unmasked; k < end; ++k) softmax_bwd_at(t, s, mask, k, q, true);
  }
}

void add_tile(const AttentionHead& h, const ScoreTile& t, const Scratch& s) {
  const std::int64_t row = t.first_key * s.width;
  products_of_tile(t, h, {s.k + row, s.width}, {s.q_columns, kBlock}, s.p);
  products_of_tile(t, h, {s.v + row, s.width}, {s.dout_columns, kBlock}, s.ds);
  softmax_bwd(t, h, s);
  add_over_queries(t, s.p, {s.dout, s.width}, s.width, s.dv + row);
  add_over_queries(t, s.ds, {s.q, s.width}, s.width, s.dk + row);
  add_over_keys(t, s.ds, {s.k + row, s.width}, s.width, s.dq);
}

/// delta[q] = out[q] . dout[q] of `queries` rows, zero beyond. Products are summed lane by lane, and the
/// lanes of kLanes queries at once, across a transposed square.
void dot_rows(const Scratch& s, const ConstRows& out_rows, std::int64_t queries, std::int64_t head_dim) {
  float lanes[kBlock * kLanes] = {}, columns[kLanes * kBlock];
  for (std::int64_t q = 0; q < queries; ++q) {
    const float* out = static_cast<const float*>(out_rows.row(q));
    if (is_16_bit(out_rows.element)) {
      read_row(out, out_rows.element, s.dq, head_dim);  // not in use yet
      out = s.dq;
    }
    const float* dout = s.dout + q * s.width;
    float* sum = lanes + q * kLanes;
    for_each_vector(head_dim, [&]<class T>(std::int64_t c) {
      store<T>(sum, load<T>(sum) + load<T>(out + c) * load<T>(dout + c));
    });
  }
  transpose(columns, kBlock, lanes, kLanes, kBlock, kLanes);
  for (std::int64_t q = 0; q < kBlock; q += kLanes) {
    Vector sum = load(columns + q);
    for (std::int64_t l = 1; l < kLanes; ++l) sum += load(columns + l * kBlock + q);
    store(s.delta + q, sum);
  }
}

void load_queries(const AttentionBwdHead& a, const Scratch& s, std::int64_t first, std::int64_t queries) {
  const AttentionHead& h = a.head;
  const ConstRows q_rows{advance(h.q, h.element, first * h.qkv_pitch), h.element, h.qkv_pitch};
  const ConstRows dout_rows{advance(a.dout, h.element, first * h.out_pitch), h.element, h.out_pitch};
  const Element out_element = output_element(h);
  const ConstRows out_rows{advance(h.out, out_element, first * h.out_pitch), out_element, h.out_pitch};
  pack_rows(s.q, s.width, kBlock, q_rows, queries, h.head_dim, h.scale);
  pack_rows(s.dout, s.width, kBlock, dout_rows, queries, h.head_dim, 1.0f);
  transpose(s.q_columns, kBlock, s.q, s.width, kBlock, s.width);
  transpose(s.dout_columns, kBlock, s.dout, s.width, kBlock, s.width);
  dot_rows(s, out_rows, queries, h.head_dim);
  for (std::int64_t q = 0; q < kBlock; ++q) s.lse[q] = q < queries ? a.lse[first + q] : 0.0f;
  for (std::int64_t i = 0; i < kBlock * s.width; ++i) s.dq[i] = 0.0f;
}

void run(const AttentionBwdHead& a) {
  const AttentionHead& h = a.head;
  const Scratch s = lay_out(a.scratch, h.seq_len, h.head_dim);
  const Element element = output_element(h);
  const std::int64_t padded_len = round_up(h.seq_len, kStrip);
  pack_rows(s.k, s.width, padded_len, {h.k, h.element, h.qkv_pitch}, h.seq_len, h.head_dim, 1.0f);
  pack_rows(s.v, s.width, padded_len, {h.v, h.element, h.qkv_pitch}, h.seq_len, h.head_dim, 1.0f);
  for (std::int64_t i = 0; i < padded_len * s.width; ++i) s.dk[i] = s.dv[i] = 0.0f;
  if (leaves_gaps(h)) {
    for (std::int64_t i = 0; i < kBlock * kBlock; ++i) s.p[i] = s.ds[i] = s.mask[i] = 0.0f;
  }
  for (std::int64_t first = 0; first < h.seq_len; first += kBlock) {
    const std::int64_t queries = smaller(kBlock, h.seq_len - first);
    load_queries(a, s, first, queries);
    for (std::int64_t key = 0; key < end_of_keys(h, first); key += kBlock) {
      add_tile(h, score_tile(h, key, first), s);
    }
    write_rows(advance(a.dq, element, first * h.qkv_pitch), element, h.qkv_pitch, s.dq, s.width, queries,
               h.head_dim, h.scale);
  }
  write_rows(a.dk, element, h.qkv_pitch, s.dk, s.width, h.seq_len, h.head_dim, 1.0f);
  write_rows(a.dv, element, h.qkv_pitch, s.dv, s.width, h.seq_len, h.head_dim, 1.0f);
}

}  // namespace

const AttentionBwdNumerics attention_bwd_numerics{.scratch_floats = scratch_floats, .run = run};

}  // namespace trireme::cpu::TRIREME_ISA
