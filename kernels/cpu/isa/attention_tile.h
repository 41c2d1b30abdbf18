// What attention forward and backward share: the grid of tiles, the transposed score tile and its dropout
// mask.
//
// [Note: attention tiles] Scores are held transposed, S^T [keys, queries]: a vector then spans queries, so
// that row maxima, row sums and the log-sum-exp of softmax are plain vector operations, never sums across a
// vector. A tile is kBlock keys by kBlock queries; under a causal mask the tiles above the diagonal are
// skipped, and in those on it, strips of kStrip keys skip the queries before them.
#pragma once

#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/philox.h"
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
};

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

inline ScoreTile score_tile(const AttentionHead& h, std::int64_t first_key, std::int64_t first_query) {
  const std::int64_t keys = smaller(kBlock, h.seq_len - first_key);
  const std::int64_t queries = smaller(kBlock, h.seq_len - first_query);
  return {.first_key = first_key,
          .first_query = first_query,
          .keys = keys,
          .queries = queries,
          .padded_keys = round_up(keys, kStrip),
          .padded_queries = round_up(queries, kStrip),
          .diagonal = h.causal && first_key == first_query};
}

/// Elements as the outputs hold them: kTf32 rounds inputs of products alone.
inline Element output_element(const AttentionHead& h) {
  return h.element == Element::kTf32 ? Element::kFp32 : h.element;
}

/// to(i, c) = factor * rows[i * width + c] for c < cols, rounded where the elements have 16 bits; `rows` is
/// used up.
inline void write_rows(void* to, Element element, std::int64_t to_pitch, float* rows, std::int64_t width,
                       std::int64_t num_rows, std::int64_t cols, float factor) {
  for (std::int64_t i = 0; i < num_rows; ++i) {
    void* out = advance(to, element, i * to_pitch);
    float* row = rows + i * width;
    float* scaled = is_16_bit(element) ? row : static_cast<float*>(out);
    scale_row(scaled, row, cols, factor);
    if (is_16_bit(element)) write_row(row, element, out, cols);
  }
}

/// One past the last key that the queries of this tile row see.
inline std::int64_t end_of_keys(const AttentionHead& h, std::int64_t first_query) {
  return h.causal ? smaller(h.seq_len, first_query + kBlock) : h.seq_len;
}

/// out [keys, queries] = rows [keys, head_dim] columns [head_dim, queries], in strips on the diagonal.
inline void products_of_tile(const ScoreTile& t, const AttentionHead& h, ConstTile rows, ConstTile columns,
                             float* out) {
  if (!t.diagonal) {
    tile_gemm<ReadA::kRows>(t.padded_keys, t.padded_queries, h.head_dim, rows, columns, out, kBlock,
                            Store::kOverwrite);
    return;
  }
  for (std::int64_t s = 0; s < t.padded_keys; s += kStrip) {
    tile_gemm<ReadA::kRows>(kStrip, t.padded_queries - s, h.head_dim,
                            {rows.data + s * rows.pitch, rows.pitch}, {columns.data + s, columns.pitch},
                            out + s * kBlock + s, kBlock, Store::kOverwrite);
  }
}

// Scores are met a column of vectors after the other: kLanes queries, all keys that they may see.

/// One past the last key that is computed for the queries from `query` on, kLanes of them.
inline std::int64_t end_of_column(const ScoreTile& t, std::int64_t query) {
  return t.diagonal ? smaller(query / kStrip * kStrip + kStrip, t.padded_keys) : t.padded_keys;
}

/// One past the last key of a column that all of its queries see.
inline std::int64_t end_of_unmasked(const ScoreTile& t, std::int64_t query) {
  return t.diagonal ? smaller(query, t.keys) : t.keys;
}

/// `value` where the queries from `query` on see `key`, `hidden` elsewhere.
inline Vector where_seen(const ScoreTile& t, std::int64_t key, std::int64_t query, Vector value,
                         Vector hidden) {
  Ints lanes;
  for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = static_cast<std::int32_t>(l);
  const auto first = static_cast<std::int32_t>(key >= t.keys ? kBlock : t.diagonal ? key : 0);
  return lanes + static_cast<std::int32_t>(query) < first ? hidden : value;
}

/// acc [queries, cols] += tile^T [queries, keys] rows [keys, cols].
inline void add_over_keys(const ScoreTile& t, const float* tile, ConstTile rows, std::int64_t cols,
                          float* acc) {
  if (!t.diagonal) {
    tile_gemm<ReadA::kColumns>(t.padded_queries, cols, t.padded_keys, {tile, kBlock}, rows, acc, cols,
                               Store::kAccumulate);
    return;
  }
  for (std::int64_t s = 0; s < t.padded_queries; s += kStrip) {
    tile_gemm<ReadA::kColumns>(kStrip, cols, s + kStrip, {tile + s, kBlock}, rows, acc + s * cols, cols,
                               Store::kAccumulate);
  }
}

/// acc [keys, cols] += tile [keys, queries] rows [queries, cols].
inline void add_over_queries(const ScoreTile& t, const float* tile, ConstTile rows, std::int64_t cols,
                             float* acc) {
  if (!t.diagonal) {
    tile_gemm<ReadA::kRows>(t.padded_keys, cols, t.padded_queries, {tile, kBlock}, rows, acc, cols,
                            Store::kAccumulate);
    return;
  }
  for (std::int64_t s = 0; s < t.padded_keys; s += kStrip) {
    tile_gemm<ReadA::kRows>(kStrip, cols, t.padded_queries - s, {tile + s * kBlock + s, kBlock},
                            {rows.data + s * rows.pitch, rows.pitch}, acc + s * cols, cols,
                            Store::kAccumulate);
  }
}

/// Tiles of scores must be zeroed once where numbers that nobody uses are computed on: lanes beyond
/// padded_queries, and, by the mask's product, queries before a strip.
inline bool leaves_gaps(const AttentionHead& h) {
  return h.seq_len % kBlock != 0 || h.dropout_p > 0.0f;
}

/// mask[key, query] = 1 / (1 - p) where the probability is kept, else 0. Random numbers are drawn along keys.
inline void dropout_mask(const ScoreTile& t, const AttentionHead& h, float* mask) {
  float rows[kBlock * kBlock];
  const float inverse = 1.0f / (1.0f - h.dropout_p);
  for (std::int64_t q = 0; q < t.padded_queries; ++q) {
    const std::int64_t first = h.first_elem + (t.first_query + q) * h.seq_len + t.first_key;
    float* row = rows + q * kBlock;
    philox_keep(h.key, h.sample, first, t.padded_keys, h.dropout_p, row);
    for (std::int64_t k = 0; k < t.padded_keys; ++k) row[k] *= inverse;
  }
  transpose(mask, kBlock, rows, kBlock, t.padded_queries, t.padded_keys);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
