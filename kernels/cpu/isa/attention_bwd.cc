// Attention backward for one key head and the query heads that read it, one query head after the other.
// Probabilities are recomputed from the log-sum-exp. The sum over keys of p * dp is the dot product of out
// and dout (Dao et al. 2022, appendix B).
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/vector_math.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The scratch of a group of heads. Tiles of scores and *_columns have the pitch kBlock; all others have the
/// padded head dim.
struct Scratch {
  std::int64_t width;               // head dim, padded
  float *k, *v;                     // [S padded, width]
  FloatRows dk, dv;                 // likewise, unless they are the output tensor
  float *q, *dout;                  // [kBlock, width]
  float *q_columns, *dout_columns;  // [width, kBlock]; the queries are scaled
  float *p, *ds, *mask;             // [kBlock keys, kBlock queries]
  FloatRows dq;                     // [kBlock, width], likewise
  float *lse, *delta;               // [kBlock]
};

std::int64_t scratch_floats(std::int64_t num_keys, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  return 4 * round_up(num_keys, kBlock) * width + 5 * kBlock * width + 3 * kBlock * kBlock + 2 * kBlock;
}

Scratch lay_out(float* from, std::int64_t num_keys, std::int64_t head_dim) {
  const std::int64_t width = round_up(head_dim, kLanes);
  const std::int64_t all = round_up(num_keys, kBlock) * width, block = kBlock * width, tile = kBlock * kBlock;
  Scratch s{};
  s.width = width;
  s.k = from;
  s.v = s.k + all;
  s.dk = {s.v + all, width};
  s.dv = {s.dk.data + all, width};
  s.q = s.dv.data + all;
  s.dout = s.q + block;
  s.q_columns = s.dout + block;
  s.dout_columns = s.q_columns + block;
  s.dq = {s.dout_columns + block, width};
  s.p = s.dq.data + block;
  s.ds = s.p + tile;
  s.mask = s.ds + tile;
  s.lse = s.mask + tile;
  s.delta = s.lse + kBlock;
  return s;
}

/// True if the products can write gradients directly to the tensor: each element once, as fp32, without
/// padding.
bool writes_gradients(const AttentionHead& h) {
  return h.num_queries <= kBlock && h.num_queries % kStrip == 0 && h.num_keys <= kBlock &&
         h.num_keys % kStrip == 0 && h.head_dim % kLanes == 0 && !is_16_bit(h.element);
}

// p = exp(scores - lse); ds = scale * p * (dp - delta), zero where masked. With dropout, dp is multiplied by
// the dropout mask, and so is the p that multiplies dout.
template <bool kDropout>
[[gnu::noinline]] void softmax_bwd_of_columns(const ScoreTile& t, const Scratch& s, float scale,
                                              std::int64_t query) {
  Vector lse[kColumns], delta[kColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    lse[c] = load(s.lse + query + c * kLanes);
    delta[c] = scale * load(s.delta + query + c * kLanes);
  }
  for_each_patch(t, query, [&](auto patch) {
    constexpr int kCount = patch.kCount;
    const auto scores = patch.load(s.p);
    const auto p = exp_below(group_of<kCount>([&](int i) { return scores.v[i] - lse[patch.column(i)]; }));
    auto dp = patch.load(s.ds), dropped = p;
    if constexpr (kDropout) {
      const auto mask = patch.load(s.mask);
      dp = dp * mask;
      dropped = dropped * mask;
    }
    const auto ds = p * group_of<kCount>([&](int i) { return scale * dp.v[i] - delta[patch.column(i)]; });
    patch.store(s.ds, patch.seen(ds, Vector{}));
    patch.store(s.p, patch.seen(dropped, Vector{}));
  });
}

void softmax_bwd(const ScoreTile& t, const AttentionHead& h, const Scratch& s) {
  const bool dropout = h.dropout_p > 0.0f;
  if (dropout) dropout_mask(t, h, s.mask);
  for (std::int64_t q = 0; q < kBlock; q += kColumnQueries) {
    (dropout ? softmax_bwd_of_columns<true> : softmax_bwd_of_columns<false>)(t, s, h.scale, q);
  }
  zero_padded_keys(t, s.p);
  zero_padded_keys(t, s.ds);
}

/// `over_queries` is kOverwrite for the first tile of these keys in a group of heads.
void add_tile(const AttentionHead& h, const ScoreTile& t, ConstTile v, const Scratch& s, Store over_queries) {
  const std::int64_t row = t.first_key * s.width;
  products_of_tile(t, h, {s.k + row, s.width}, {s.q_columns, kBlock}, s.p);
  products_of_tile(t, h, {v.data + t.first_key * v.pitch, v.pitch}, {s.dout_columns, kBlock}, s.ds);
  hide_other_keys(t, h, s.p);
  softmax_bwd(t, h, s);
  add_over_queries(t, s.p, {s.dout, s.width}, s.width, {s.dv.data + row, s.dv.pitch}, over_queries);
  add_over_queries(t, s.ds, {s.q, s.width}, s.width, {s.dk.data + row, s.dk.pitch}, over_queries);
  add_over_keys(t, s.ds, {s.k + row, s.width}, s.width, s.dq,
                t.is_first ? Store::kOverwrite : Store::kAccumulate);
}

/// delta[q] = out[q] . dout[q] for `queries` rows, zero beyond. Products are summed per lane. Then the lanes
/// of kLanes queries are summed at once, through a transposed square.
[[gnu::noinline]] void dot_rows(const Scratch& s, const ConstRows& out_rows, std::int64_t queries,
                                std::int64_t head_dim) {
  float lanes[kBlock * kLanes], columns[kLanes * kBlock];
  const bool convert = is_16_bit(out_rows.element);
  const float* dout = s.dout;
  for (std::int64_t q = 0; q < queries; ++q, dout += s.width) {
    const float* out = static_cast<const float*>(out_rows.row(q));
    if (convert) {
      read_row(out, out_rows.element, s.dq.data, head_dim);  // dq is not in use yet
      out = s.dq.data;
    }
    Vector sum{};
    std::int64_t c = 0;
    for (; c + kLanes <= head_dim; c += kLanes) sum += load(out + c) * load(dout + c);
    float* to = lanes + q * kLanes;
    store(to, sum);
    for (; c < head_dim; ++c, ++to) *to += out[c] * dout[c];
  }
  for (std::int64_t i = queries * kLanes; i < kBlock * kLanes; ++i) lanes[i] = 0.0f;
  transpose(columns, kBlock, lanes, kLanes, kBlock, kLanes);
  for (std::int64_t q = 0; q < kBlock; q += kLanes) {
    Vector sum = load(columns + q);
    for (std::int64_t l = 1; l < kLanes; ++l) sum += load(columns + l * kBlock + q);
    store(s.delta + q, sum);
  }
}

void load_queries(const AttentionBwdHead& a, const Scratch& s, std::int64_t first, std::int64_t queries) {
  const AttentionHead& h = a.head;
  const ConstRows q_rows{advance(h.q, h.element, first * h.q_pitch), h.element, h.q_pitch};
  const ConstRows dout_rows{advance(a.dout, h.element, first * h.out_pitch), h.element, h.out_pitch};
  const Element out_element = output_element(h);
  const ConstRows out_rows{advance(h.out, out_element, first * h.out_pitch), out_element, h.out_pitch};
  pack_rows(s.q, s.width, kBlock, q_rows, queries, h.head_dim);
  pack_rows(s.dout, s.width, kBlock, dout_rows, queries, h.head_dim);
  transpose(s.q_columns, kBlock, s.q, s.width, kBlock, s.width);
  scale_columns(h, s.q_columns, s.width);
  transpose(s.dout_columns, kBlock, s.dout, s.width, kBlock, s.width);
  dot_rows(s, out_rows, queries, h.head_dim);
  for (std::int64_t q = 0; q < kBlock; ++q) s.lse[q] = q < queries ? a.lse[first + q] : 0.0f;
}

/// Head `index` of the group.
AttentionBwdHead head_of_group(const AttentionBwdHead& a, std::int64_t index) {
  AttentionBwdHead one = a;
  const AttentionHead& h = a.head;
  const Element element = output_element(h);
  const std::int64_t elems = index * h.head_dim;
  one.head.q = advance(h.q, h.element, elems);
  one.head.out = advance(h.out, element, elems);
  one.head.first_elem = h.first_elem + index * h.num_queries * h.num_keys;
  one.dout = advance(a.dout, h.element, elems);
  one.lse = a.lse + index * h.num_queries;
  one.dq = advance(a.dq, element, elems);
  return one;
}

/// `begins_sums` is true for the first query head that reads the keys.
void add_head(const AttentionBwdHead& a, ConstTile v, Scratch s, bool begins_sums) {
  const AttentionHead& h = a.head;
  const Element element = output_element(h);
  const bool in_place = writes_gradients(h);
  if (in_place) s.dq = {static_cast<float*>(a.dq), h.q_pitch};
  // The keys that earlier queries have written gradients for. Later queries begin at equal or later keys.
  std::int64_t keys_met = begins_sums ? 0 : h.num_keys;
  for (std::int64_t first = 0; first < h.num_queries; first += kBlock) {
    const std::int64_t queries = smaller(kBlock, h.num_queries - first);
    load_queries(a, s, first, queries);
    const KeyRange keys = seen_keys(h, first);
    for (std::int64_t key = keys.first; key < keys.end; key += kBlock) {
      add_tile(h, score_tile(h, key, first), v, s, key < keys_met ? Store::kAccumulate : Store::kOverwrite);
      if (key >= keys_met) keys_met = key + kBlock;
    }
    if (in_place) return;
    write_rows(advance(a.dq, element, first * h.q_pitch), element, h.q_pitch, s.dq, queries, h.head_dim);
  }
}

void run(const AttentionBwdHead& a) {
  const AttentionHead& h = a.head;
  Scratch s = lay_out(a.scratch, h.num_keys, h.head_dim);
  const bool in_place = writes_gradients(h);
  if (in_place) {
    s.dk = {static_cast<float*>(a.dk), h.kv_pitch};
    s.dv = {static_cast<float*>(a.dv), h.kv_pitch};
  }
  const Element element = output_element(h);
  const std::int64_t padded_len = round_up(h.num_keys, kStrip);
  pack_rows(s.k, s.width, padded_len, {h.k, h.element, h.kv_pitch}, h.num_keys, h.head_dim);
  const ConstTile v = rows_of_keys(h, h.v, s.v, s.width);
  if (leaves_gaps(h)) {
    for (std::int64_t i = 0; i < kBlock * kBlock; ++i) s.p[i] = s.ds[i] = s.mask[i] = 0.0f;
  }
  for (std::int64_t i = 0; i < a.group; ++i) add_head(head_of_group(a, i), v, s, i == 0);
  if (in_place) return;
  write_rows(a.dk, element, h.kv_pitch, s.dk, h.num_keys, h.head_dim);
  write_rows(a.dv, element, h.kv_pitch, s.dv, h.num_keys, h.head_dim);
}

}  // namespace

const AttentionBwdNumerics attention_bwd_numerics{.scratch_floats = scratch_floats, .run = run};

}  // namespace trireme::cpu::TRIREME_ISA
