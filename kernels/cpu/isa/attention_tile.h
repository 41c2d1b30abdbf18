// Shared by attention forward and backward: the grid of tiles, the transposed score tile and its dropout
// mask.
//
// [Note: attention tiles] Scores are stored transposed, S^T [keys, queries]. A vector then spans queries, so
// row maxima, row sums and the log-sum-exp of softmax are plain vector operations without horizontal sums. A
// tile is kBlock keys by kBlock queries. Under a causal mask, tiles above the diagonal are skipped. In tiles
// on the diagonal, products of kTileRows keys skip the vectors of earlier queries. The queries are scaled,
// not the scores. Otherwise the compiler contracts scale * s - m, which is then not exactly 0 at the maximum,
// and far from 0 for large scores.
#pragma once

#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/isa/vector_group.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kStrip = 16;
static_assert(kStrip % kLanes == 0 && kStrip % kTileRows == 0 && kBlock % kStrip == 0);

struct ScoreTile {
  std::int64_t first_key, first_query;
  std::int64_t keys, queries;                // that exist
  std::int64_t padded_keys, padded_queries;  // that are computed: multiples of kStrip
  bool diagonal;                             // the causal mask cuts through it
  bool is_first;                             // the first tile of its queries
};

/// The keys visible to some query of a tile row. `first` is the first key of a tile.
struct KeyRange {
  std::int64_t first, end;
};

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

inline std::int64_t larger_index(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

/// The first key that the window of a query leaves visible.
inline std::int64_t window_begin(const AttentionHead& h, std::int64_t query) {
  return h.window > 0 ? larger_index(0, query + 1 - h.window) : 0;
}

inline KeyRange seen_keys(const AttentionHead& h, std::int64_t first_query) {
  const std::int64_t queries_end = smaller(h.num_queries, first_query + kBlock);
  KeyRange keys{window_begin(h, first_query) / kBlock * kBlock, h.causal ? queries_end : h.num_keys};
  if (h.key_bounds == nullptr) return keys;
  // Each query sees itself, so every tile row includes the tile on the diagonal.
  keys.first =
      larger_index(keys.first, smaller(h.key_bounds[2 * first_query], first_query) / kBlock * kBlock);
  const std::int64_t end = h.key_bounds[2 * queries_end - 1];
  keys.end = smaller(keys.end, end > queries_end ? end : queries_end);
  return keys;
}

inline ScoreTile score_tile(const AttentionHead& h, std::int64_t first_key, std::int64_t first_query) {
  const std::int64_t keys = smaller(kBlock, h.num_keys - first_key);
  const std::int64_t queries = smaller(kBlock, h.num_queries - first_query);
  return {.first_key = first_key,
          .first_query = first_query,
          .keys = keys,
          .queries = queries,
          .padded_keys = round_up(keys, kStrip),
          .padded_queries = round_up(queries, kStrip),
          .diagonal = h.causal && first_key == first_query,
          .is_first = first_key == seen_keys(h, first_query).first};
}

/// The element type of the outputs. kTf32 rounds only inputs of products, so outputs are fp32.
inline Element output_element(const AttentionHead& h) {
  return h.element == Element::kTf32 ? Element::kFp32 : h.element;
}

/// to(i, c) = factor(i) * rows(i, c) for c < cols, rounded for 16-bit elements. `rows` may be overwritten.
template <class Factor = One>
inline void write_rows(void* to, Element element, std::int64_t to_pitch, FloatRows rows,
                       std::int64_t num_rows, std::int64_t cols, const Factor& factor = {}) {
  if (!is_16_bit(element)) {
    copy_rows<InTensor::kDestination>({static_cast<float*>(to), to_pitch}, rows, num_rows, cols, factor);
    return;
  }
  copy_rows<InTensor::kSource>(rows, rows, num_rows, cols, factor);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    write_row(rows.data + i * rows.pitch, element, advance(to, element, i * to_pitch), cols);
  }
}

/// Applies the score scale to the queries.
inline void scale_columns(const AttentionHead& h, float* columns, std::int64_t width) {
  for (std::int64_t i = 0; i < kBlock * width; ++i) columns[i] *= h.scale;
}

/// out [keys, queries] = rows [keys, head_dim] columns [head_dim, queries].
inline void products_of_tile(const ScoreTile& t, const AttentionHead& h, ConstTile rows, ConstTile columns,
                             float* out) {
  for (std::int64_t key = 0; key < t.padded_keys; key += kTileRows) {
    const std::int64_t query = t.diagonal ? key / kLanes * kLanes : 0;
    gemm_strip<ReadA::kRows>(t.padded_queries - query, h.head_dim, {rows.data + key * rows.pitch, rows.pitch},
                             {columns.data + query, columns.pitch}, out + key * kBlock + query, kBlock,
                             Store::kOverwrite);
  }
}

/// A score so low that exp() of its difference to any visible score is 0. Not infinity, because infinity
/// minus itself is NaN.
constexpr float kHiddenScore = -1e30f;

/// Sets scores of keys outside the query's document or window to kHiddenScore. If such a key comes first in a
/// row, its contribution is multiplied by 0 when the first visible key arrives.
inline void hide_other_keys(const ScoreTile& t, const AttentionHead& h, float* scores) {
  for (std::int64_t q = 0; h.window > 0 && q < t.queries; ++q) {
    const std::int64_t begin = window_begin(h, t.first_query + q) - t.first_key;
    for (std::int64_t k = 0; k < smaller(begin, t.keys); ++k) scores[k * kBlock + q] = kHiddenScore;
  }
  if (h.key_bounds == nullptr) return;
  const std::int32_t *first = h.key_bounds + 2 * t.first_query, *last = first + 2 * (t.queries - 1);
  if (last[0] <= t.first_key && first[1] >= t.first_key + t.keys) return;  // bounds grow with the queries
  for (std::int64_t q = 0; q < t.queries; ++q) {
    const std::int64_t begin = first[2 * q] - t.first_key, end = first[2 * q + 1] - t.first_key;
    for (std::int64_t k = 0; k < smaller(begin, t.keys); ++k) scores[k * kBlock + q] = kHiddenScore;
    for (std::int64_t k = end > 0 ? end : 0; k < t.keys; ++k) scores[k * kBlock + q] = kHiddenScore;
  }
}

/// `value` for queries from `query` on that see `key` under the causal mask, else `hidden`.
inline Vector where_seen(std::int64_t key, std::int64_t query, Vector value, Vector hidden) {
  Ints lanes;
  for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = static_cast<std::int32_t>(l);
  return lanes < static_cast<std::int32_t>(key - query) ? hidden : value;
}

// Elementwise work processes kColumns vectors of scores at a time. They belong to one key, or to several keys
// where the mask leaves fewer queries. More vectors would not fit the registers beside the constants.
constexpr int kColumns = 4;
constexpr std::int64_t kColumnQueries = kColumns * kLanes;
static_assert(kBlock % kColumnQueries == 0);

/// Vectors of a tile of scores: the columns from kFirst on, for kKeys keys. With kDiagonal, the causal mask
/// covers part of column kFirst.
template <int kFirst, int kKeys, bool kDiagonal>
struct Patch {
  static constexpr int kWidth = kColumns - kFirst, kCount = kWidth * kKeys;
  std::int64_t key, query;  // of column 0

  static constexpr int column(int i) { return kFirst + i % kWidth; }
  std::int64_t offset(int i) const { return key_of(i) * kBlock + query_of(i); }
  VectorGroup<kCount> load(const float* tile) const {
    return group_of<kCount>([&](int i) { return TRIREME_ISA::load(tile + offset(i)); });
  }
  void store(float* tile, const VectorGroup<kCount>& group) const {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) TRIREME_ISA::store(tile + offset(i), group.v[i]);
  }
  /// The group's vectors, with `hidden` at masked positions.
  VectorGroup<kCount> seen(const VectorGroup<kCount>& group, Vector hidden) const {
    if constexpr (!kDiagonal) return group;
    return group_of<kCount>([&](int i) {
      return i % kWidth == 0 ? where_seen(key_of(i), query_of(i), group.v[i], hidden) : group.v[i];
    });
  }

 private:
  std::int64_t key_of(int i) const {
    return key + i / kWidth;
  }
  std::int64_t query_of(int i) const {
    return query + column(i) * kLanes;
  }
};

// Calls body(patch) for the columns from kFirst on of the keys [key, end).
template <int kFirst, bool kDiagonal, int kKeys = kColumns / (kColumns - kFirst), class Body>
inline void for_each_patch_of_keys(std::int64_t key, std::int64_t end, std::int64_t query, const Body& body) {
#pragma GCC unroll 1
  for (; key + kKeys <= end; key += kKeys) body(Patch<kFirst, kKeys, kDiagonal>{key, query});
  if constexpr (kKeys > 1) for_each_patch_of_keys<kFirst, kDiagonal, 1>(key, end, query, body);
}

template <int kFirst, class Body>
inline void for_each_patch_of_diagonal(const ScoreTile& t, std::int64_t query, const Body& body) {
  if constexpr (kFirst < kColumns) {
    const std::int64_t first = query + kFirst * kLanes;
    for_each_patch_of_keys<kFirst, true>(first, smaller(first + kLanes, t.keys), query, body);
    for_each_patch_of_diagonal<kFirst + 1>(t, query, body);
  }
}

/// Calls body(patch) for patches that cover all scores visible to the kColumnQueries queries from `query` on,
/// in key order.
template <class Body>
inline void for_each_patch(const ScoreTile& t, std::int64_t query, const Body& body) {
  for_each_patch_of_keys<0, false>(0, t.diagonal ? smaller(query, t.keys) : t.keys, query, body);
  if (t.diagonal) for_each_patch_of_diagonal<0>(t, query, body);
}

/// Zeroes the rows of padded keys.
inline void zero_padded_keys(const ScoreTile& t, float* tile) {
  for (std::int64_t i = t.keys * kBlock; i < t.padded_keys * kBlock; ++i) tile[i] = 0.0f;
}

/// acc [queries, cols] (+)= tile^T [queries, keys] rows [keys, cols].
inline void add_over_keys(const ScoreTile& t, const float* tile, ConstTile rows, std::int64_t cols,
                          FloatRows acc, Store mode) {
  for (std::int64_t query = 0; query < t.padded_queries; query += kTileRows) {
    gemm_strip<ReadA::kColumns>(cols, t.diagonal ? query + kTileRows : t.padded_keys, {tile + query, kBlock},
                                rows, acc.data + query * acc.pitch, acc.pitch, mode);
  }
}

/// acc [keys, cols] (+)= tile [keys, queries] rows [queries, cols].
inline void add_over_queries(const ScoreTile& t, const float* tile, ConstTile rows, std::int64_t cols,
                             FloatRows acc, Store mode) {
  for (std::int64_t key = 0; key < t.padded_keys; key += kTileRows) {
    const std::int64_t query = t.diagonal ? key : 0;
    gemm_strip<ReadA::kRows>(cols, t.padded_queries - query, {tile + key * kBlock + query, kBlock},
                             {rows.data + query * rows.pitch, rows.pitch}, acc.data + key * acc.pitch,
                             acc.pitch, mode);
  }
}

/// True if tiles of scores must be zeroed once, because unused values take part in later products: lanes
/// beyond padded_queries and, in masked tiles, queries before a strip.
inline bool leaves_gaps(const AttentionHead& h) {
  return h.num_queries % kBlock != 0 || h.num_keys % kBlock != 0 || h.dropout_p > 0.0f;
}

/// True if the rows of the keys, read one element at a time, can be read from their tensor: no conversion, no
/// padding, and only one block of queries reads them.
inline bool reads_rows_in_place(const AttentionHead& h) {
  return h.element == Element::kFp32 && h.num_queries <= kBlock && h.num_keys <= kBlock &&
         h.num_keys % kStrip == 0;
}

/// The keys' rows [S padded, width] of `from`: in place if possible, else copied to `to`.
inline ConstTile rows_of_keys(const AttentionHead& h, const void* from, float* to, std::int64_t width) {
  if (reads_rows_in_place(h)) return {static_cast<const float*>(from), h.kv_pitch};
  pack_rows(to, width, round_up(h.num_keys, kStrip), {from, h.element, h.kv_pitch}, h.num_keys, h.head_dim);
  return {to, width};
}

/// mask[key, query] = 1 / (1 - p) where the probability is kept, else 0. Random numbers are drawn along keys.
inline void dropout_mask(const ScoreTile& t, const AttentionHead& h, float* mask) {
  float rows[kBlock * kBlock];
  const float inverse = 1.0f / (1.0f - h.dropout_p);
  for (std::int64_t q = 0; q < t.padded_queries; ++q) {
    const std::int64_t first = h.first_elem + (t.first_query + q) * h.num_keys + t.first_key;
    float* row = rows + q * kBlock;
    philox_keep(h.key, h.sample, first, t.padded_keys, h.dropout_p, row);
    for (std::int64_t k = 0; k < t.padded_keys; ++k) row[k] *= inverse;
  }
  transpose(mask, kBlock, rows, kBlock, t.padded_queries, t.padded_keys);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
