// The tiles of a matmul's output: see [Note: matmul tiles] in kernels/cpu/matmul/matmul.cc.
#pragma once

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/cpu/launch.h"
#include "runtime/base/error.h"

namespace trireme::cpu {

struct Extents {
  std::int64_t m, n, k;
};

struct Tile {
  std::int64_t row, col, rows, cols;
};

struct Tiling {
  std::int64_t tile_rows, tile_cols, down, across;
};

/// The largest tiles for a kind of product.
struct TileLimits {
  std::int64_t rows, cols;
};

/// Strips of whole rows. Their number is a power of two, unless that makes them too high.
inline Tiling strips_of(const Extents& e, const TileLimits& limits) {
  constexpr std::int64_t kMostStrips = 4, kWantedRows = 64, kMinProducts = 3'000'000;
  const std::int64_t most = std::clamp<std::int64_t>(e.m / kWantedRows, 2, kMostStrips);
  const std::int64_t worth = std::clamp<std::int64_t>(e.m * e.n * e.k / kMinProducts, 1, most);
  const auto count = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(worth)));
  const std::int64_t rows = std::min(ceil_div(ceil_div(e.m, count), 16) * 16, limits.rows);
  return {rows, e.n, ceil_div(e.m, rows), 1};
}

/// Splits a product into tiles. Small products become strips of whole rows: oneDNN then reads b in long rows,
/// and a thread finds the rows in its cache that it wrote in the product before. Other products are split
/// further than `limits`, to share them among threads, as long as a tile takes some microseconds.
inline Tiling tiling_of(const Extents& e, const TileLimits& limits) {
  constexpr std::int64_t kMinExtent = 96, kWantedTiles = 8;
  constexpr std::int64_t kMinFlops = 2'000'000;
  constexpr std::int64_t kSmallProduct = 72'000'000, kMinStripRows = 64;
  if (e.m * e.n * e.k < kSmallProduct && e.m >= kMinStripRows && e.n <= limits.cols) {
    return strips_of(e, limits);
  }
  std::int64_t down = ceil_div(e.m, limits.rows), across = ceil_div(e.n, limits.cols);
  while (down * across < kWantedTiles && e.m * e.n * e.k / (down * across) >= kMinFlops) {
    const std::int64_t rows = e.m / down, cols = e.n / across;
    if (std::max(rows, cols) < 2 * kMinExtent) break;
    (rows >= cols ? down : across) *= 2;
  }
  const std::int64_t tile_rows = ceil_div(ceil_div(e.m, down), 16) * 16;
  const std::int64_t tile_cols = ceil_div(ceil_div(e.n, across), 16) * 16;
  return {tile_rows, tile_cols, ceil_div(e.m, tile_rows), ceil_div(e.n, tile_cols)};
}

/// Neighbouring tiles share the operand that is read in more pieces, which is the larger one.
inline Tile tile_at(const Extents& e, const Tiling& tiling, std::int64_t index) {
  const bool down_first = tiling.down < tiling.across;
  const std::int64_t i = down_first ? index % tiling.down : index / tiling.across;
  const std::int64_t j = down_first ? index / tiling.down : index % tiling.across;
  const std::int64_t row = i * tiling.tile_rows, col = j * tiling.tile_cols;
  return {row, col, std::min(tiling.tile_rows, e.m - row), std::min(tiling.tile_cols, e.n - col)};
}

inline void check_status(dnnl_status_t status, const Extents& e) {
  if (status == dnnl_success) return;
  throw Error(ErrorCode::kRuntime, "oneDNN sgemm of [{} x {} x {}] failed with status {}", e.m, e.n, e.k,
              static_cast<int>(status));
}

/// Assigns tiles to threads. A thread first takes its own share of neighbouring tiles, which stay in its
/// cache between products. Then it takes tiles from threads that are behind.
class TileShares {
 public:
  TileShares(std::int64_t num_tiles, int num_threads)
      : num_tiles_(num_tiles), taken_(static_cast<std::size_t>(num_threads)) {}

  /// Calls body(i) for tiles until none is left. Called by each thread of a team of at most num_threads.
  template <class Body>
  void work(int thread, int team, const Body& body) {
    for (int s = 0; s < team; ++s) {
      const std::int64_t owner = (thread + s) % team;
      const std::int64_t first = owner * num_tiles_ / team, end = (owner + 1) * num_tiles_ / team;
      std::atomic<std::int64_t>& taken = taken_[static_cast<std::size_t>(owner)];
      for (std::int64_t i = first + taken++; i < end; i = first + taken++) body(i);
    }
  }

 private:
  std::int64_t num_tiles_;
  std::vector<std::atomic<std::int64_t>> taken_;  // tiles taken of each share
};

/// Runs body(tile) for all tiles on the rank's threads, with oneDNN limited to the calling thread. body
/// returns the status of its products. Throws Error(kRuntime) if one failed.
template <class Body>
void for_each_tile(const KernelContext& exec, const Extents& e, const Tiling& tiling, const Body& body) {
  std::atomic<dnnl_status_t> failed{dnnl_success};
  TileShares shares(tiling.down * tiling.across, exec.num_threads);
#pragma omp parallel num_threads(exec.num_threads)
  {
    // Only for the threads of this region. In a region of one thread, oneDNN would use the caller's setting.
    omp_set_num_threads(1);
    shares.work(omp_get_thread_num(), omp_get_num_threads(), [&](std::int64_t i) {
      const dnnl_status_t status = body(tile_at(e, tiling, i));
      if (status != dnnl_success) failed = status;
    });
  }
  check_status(failed, e);
}

/// Like for_each_tile, in rounds: body(round, tile) for all tiles of a round before the next begins. One
/// thread runs all rounds of a tile in order, so threads need no barrier.
template <class Body>
void for_each_round_and_tile(const KernelContext& exec, const Extents& e, const Tiling& tiling,
                             std::int64_t rounds, const Body& body) {
  std::atomic<dnnl_status_t> failed{dnnl_success};
#pragma omp parallel num_threads(exec.num_threads)
  {
    omp_set_num_threads(1);  // as above
    for (std::int64_t round = 0; round < rounds; ++round) {
#pragma omp for schedule(static) nowait
      for (std::int64_t i = 0; i < tiling.down * tiling.across; ++i) {
        const dnnl_status_t status = body(round, tile_at(e, tiling, i));
        if (status != dnnl_success) failed = status;
      }
    }
  }
  check_status(failed, e);
}

}  // namespace trireme::cpu
