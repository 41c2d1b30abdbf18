// Sums of products over tensor chunks, tile by tile.
//
// [Note: sums in tiles] P products in G groups give P G leaves of one binary tree. A tile computes its part
// of each leaf in turn and adds it while it is in cache. So each result is written once. A separate product
// and addition per leaf would pass through memory 4 P G times. After leaf l, as many partial sums are alive
// as l has bits that are 1. The first of them is stored in the result.
//
// Whole fp32 products use sgemm, with the same bits as on their own. Ranges of K, 16-bit and tf32 operands
// are packed as in [Note: panels], with the same split of K, except that b is packed once for all threads.
// Each strip of b is multiplied with some rows of a, leaf by leaf. The second leaf of two is added to the
// first within the product.
#include <bit>
#include <cassert>
#include <deque>
#include <limits>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/matmul_tiling.h"
#include "kernels/cpu/matmul/operand_copy.h"
#include "kernels/cpu/matmul/packed_operand.h"
#include "kernels/cpu/matmul/sgemm_tile.h"
#include "kernels/cpu/ops.h"
#include "kernels/product_workspace.h"

namespace trireme::cpu {
namespace {

/// The memory of the partial sums of a tile's tree.
struct TileNodes {
  float* d;
  std::int64_t pitch;  // of d
  float* waiting;      // product_sum_waiting() times rows x cols floats
  std::int64_t rows, cols;

  float* data(int i) const { return i == 0 ? d : waiting + (i - 1) * rows * cols; }
  std::int64_t pitch_of(int i) const { return i == 0 ? pitch : cols; }

  void add(const float* x, std::int64_t x_pitch, int to) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      float* sum = data(to) + row * pitch_of(to);
      numerics().elementwise->add(sum, x + row * x_pitch, sum, cols);
    }
  }
};

/// A leaf overwrites `to` with its part of a tile, or adds to it.
enum class LeafStore : std::uint8_t { kOverwrite, kAdd };

struct LeafTree {
  int leaves, groups;  // in all, and of one product
  bool adds;           // true if a leaf can add itself to another
  const float* bias;   // of the tile's columns, or null

  /// Calls compute(leaf, to, pitch, store) for each leaf.
  template <class Compute>
  void sum(const TileNodes& nodes, const Compute& compute) const {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      const auto bits = static_cast<unsigned>(leaf);
      int at = std::popcount(bits), merges = std::countr_one(bits);
      const bool joins = adds && merges > 0;
      if (joins) --at, --merges;
      compute(leaf, nodes.data(at), nodes.pitch_of(at), joins ? LeafStore::kAdd : LeafStore::kOverwrite);
      for (; merges > 0; --merges, --at) nodes.add(nodes.data(at), nodes.pitch_of(at), at - 1);
      // The first product is complete and in one node, so its bias is added now.
      if (leaf + 1 == groups && bias != nullptr) nodes.add(bias, 0, 0);
    }
  }
};

Extents extents_of(const ProductSumArgs& args) {
  return {args.d.shape[0], args.d.shape[1], args.products.front().a.shape[1]};
}

LeafTree tree_of(const ProductSumArgs& args, const Tile& t, bool adds) {
  return {.leaves = static_cast<int>(args.products.size()) * args.groups,
          .groups = args.groups,
          .adds = adds,
          .bias = args.bias.defined() ? args.bias.as<float>() + t.col : nullptr};
}

void sum_by_sgemm(const KernelContext& exec, const ProductSumArgs& args, const Extents& e, bool copies_b) {
  std::vector<Operands> leaves;
  std::deque<TransposedCopy> copies;
  for (const ProductSumArgs::Factors& factors : args.products) {
    Operands& leaf =
        leaves.emplace_back(operand(factors.a, Transpose::kNo), operand(factors.b, args.transpose_b), e.k);
    if (copies_b) leaf.b = copies.emplace_back(exec, leaf.b).operand();
  }
  const Tiling tiling = tiling_of(e, kSgemmTiles);
  const ThreadScratch waiting(exec, product_sum_waiting(args) * tiling.tile_rows * tiling.tile_cols);
  for_each_tile(exec, e, tiling, [&](const Tile& t) {
    dnnl_status_t status = dnnl_success;
    const TileNodes nodes{args.d.as<float>() + t.row * e.n + t.col, e.n, waiting.mine(), t.rows, t.cols};
    tree_of(args, t, /*adds=*/false).sum(nodes, [&](int i, float* to, std::int64_t pitch, LeafStore) {
      const Operands& leaf = leaves[static_cast<std::size_t>(i)];
      if (status == dnnl_success) status = sgemm_tile(leaf, e.k, t, 0.0f, to, pitch);
    });
    return status;
  });
}

class PackedProductSum {
 public:
  PackedProductSum(const KernelContext& exec, const ProductSumArgs& args, const Extents& e)
      : args_(args),
        e_(e),
        gemm_(gemm_for(numerics(), packed_operand(args.products[0].a, args.math, true).element)),
        range_(e.k / args.groups),
        all_k_(e.k * static_cast<std::int64_t>(args.products.size())),
        depths_(all_depths()),
        all_words_(depths_.back().at + words_of(gemm_, depths_.back().depth)),
        tile_cols_(lines_of(e.n, within(kFloatsOfB, gemm_.col_strip, kMostCols), gemm_.col_strip, 1)),
        block_rows_(
            lines_of(e.m, within(kFloatsOfA, gemm_.row_strip, kMostRows), gemm_.row_strip, exec.num_threads)),
        b_strips_(exec, all_words_ * tile_cols_),
        a_strips_(exec, all_words_ * block_rows_),
        waiting_(exec, product_sum_waiting(args) * block_rows_ * gemm_.col_strip) {}

  void run(const KernelContext& exec) const {
    for (std::int64_t col = 0; col < e_.n; col += tile_cols_) {
      const std::int64_t cols = std::min(tile_cols_, e_.n - col);
      for_each_piece(exec, std::ssize(depths_), all_k_ * cols, [&](std::int64_t i) { pack_b(i, col, cols); });
      const Tiling blocks{block_rows_, cols, ceil_div(e_.m, block_rows_), 1};
      for_each_tile(exec, {e_.m, cols, e_.k}, blocks, [&](const Tile& t) {
        pack_a(t.row, t.rows);
        for (std::int64_t strip = 0; strip < cols; strip += gemm_.col_strip) {
          sum_strip({t.row, col + strip, t.rows, std::min(gemm_.col_strip, cols - strip)}, col, cols);
        }
        return dnnl_success;
      });
    }
  }

 private:
  // Limits of one packing step, in lines and in floats; measured like the limits of [Note: panels].
  static constexpr std::int64_t kMostRows = 192, kMostCols = 768;
  static constexpr std::int64_t kFloatsOfA = 1 << 20, kFloatsOfB = 4 << 20;

  /// A range of k that is packed in one step.
  struct Depth {
    std::size_t product;
    std::int64_t k, depth;
    std::int64_t at;  // start within the concatenated words of all products
  };

  std::vector<Depth> all_depths() const {
    std::vector<Depth> all;
    const Depths cut = depths_of(gemm_, range_);
    for (std::int64_t k = 0, at = 0; k < all_k_;) {
      const std::int64_t depth = std::min(cut.depth, range_ - k % range_);
      all.push_back({static_cast<std::size_t>(k / e_.k), k % e_.k, depth, at});
      k += depth;
      at += words_of(gemm_, depth);
    }
    return all;
  }

  /// Number of lines (whole strips) that span all words: at most `most`, and `floats` in total unless one
  /// strip is more.
  std::int64_t within(std::int64_t floats, std::int64_t strip, std::int64_t most) const {
    return std::clamp(floats / all_words_ / strip * strip, strip, most);
  }

  /// The lines of a block, in whole strips up to `most`, that minimise the work of the busiest of `threads`.
  static std::int64_t lines_of(std::int64_t lines, std::int64_t most, std::int64_t strip, int threads) {
    const std::int64_t fewest = ceil_div(lines, most);
    std::int64_t best = most, least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t count = fewest; count <= 2 * fewest + threads; ++count) {
      const std::int64_t block = ceil_div(ceil_div(lines, count), strip) * strip;
      const std::int64_t of_a_thread = ceil_div(ceil_div(lines, block), threads) * block;
      if (of_a_thread < least) least = of_a_thread, best = block;
    }
    return best;
  }

  std::int64_t in_strips(std::int64_t lines, std::int64_t strip) const {
    return ceil_div(lines, strip) * strip;
  }

  void pack_b(std::int64_t i, std::int64_t col, std::int64_t cols) const {
    const Depth& part = depths_[static_cast<std::size_t>(i)];
    const PackedOperand b = packed_operand(args_.products[part.product].b, args_.math,
                                           /*along_k=*/args_.transpose_b == Transpose::kYes);
    float* y = b_strips_.data() + in_strips(cols, gemm_.col_strip) * part.at;
    gemm_.pack_b(b.strips(col, cols, part.k, part.depth, y));
  }

  void pack_a(std::int64_t row, std::int64_t rows) const {
    for (const Depth& part : depths_) {
      const PackedOperand a = packed_operand(args_.products[part.product].a, args_.math, /*along_k=*/true);
      float* y = a_strips_.mine() + in_strips(rows, gemm_.row_strip) * part.at;
      gemm_.pack_a(a.strips(row, rows, part.k, part.depth, y));
    }
  }

  /// Computes a strip of the packed columns [col, col + cols).
  void sum_strip(const Tile& strip, std::int64_t col, std::int64_t cols) const {
    const TileNodes nodes{args_.d.as<float>() + strip.row * e_.n + strip.col, e_.n, waiting_.mine(),
                          strip.rows, strip.cols};
    const std::int64_t packed_rows = in_strips(strip.rows, gemm_.row_strip);
    const std::int64_t packed_cols = in_strips(cols, gemm_.col_strip);
    const std::size_t depths_of_leaf = depths_.size() * static_cast<std::size_t>(range_) / all_k_;
    tree_of(args_, strip, /*adds=*/depths_of_leaf == 1)
        .sum(nodes, [&](int leaf, float* to, std::int64_t pitch, LeafStore store) {
          const std::size_t first = static_cast<std::size_t>(leaf) * depths_of_leaf;
          for (std::size_t i = first; i < first + depths_of_leaf; ++i) {
            const Depth& part = depths_[i];
            gemm_.multiply({.a = a_strips_.mine() + packed_rows * part.at,
                            .b = b_strips_.data() + packed_cols * part.at +
                                 (strip.col - col) * words_of(gemm_, part.depth),
                            .c = to,
                            .rows = strip.rows,
                            .cols = strip.cols,
                            .depth = part.depth,
                            .c_pitch = pitch,
                            .accumulate = i > first || store == LeafStore::kAdd});
          }
        });
  }

  const ProductSumArgs& args_;
  const Extents e_;
  const GemmNumerics& gemm_;
  const std::int64_t range_;  // of k, summed by one leaf
  const std::int64_t all_k_;  // total k of all products
  const std::vector<Depth> depths_;
  const std::int64_t all_words_;
  const std::int64_t tile_cols_, block_rows_;
  const Workspace b_strips_;  // for some columns, shared by all threads
  const ThreadScratch a_strips_, waiting_;
};

void check_dtypes(const ProductSumArgs& args) {
  for (const ProductSumArgs::Factors& factors : args.products) {
    check_one_float_type("product_sum", {factors.a, factors.b, args.products.front().a});
  }
  check_fp32("product_sum", {args.d, args.bias});
}

}  // namespace

void run_op(const KernelContext& exec, const ProductSumArgs& args) {
  check_dtypes(args);
  const Extents e = extents_of(args);
  assert(std::has_single_bit(args.products.size()) &&
         std::has_single_bit(static_cast<unsigned>(args.groups)));
  assert(e.k > 0 && e.k % args.groups == 0);
  if (e.m == 0 || e.n == 0) return;
  const ProductSumArgs::Factors& first = args.products.front();
  if (args.groups == 1 && first.a.dtype == DType::kFloat32 && args.math == MathMode::kFp32) {
    const OperandCopies copies =
        copies_for(operand(first.a, Transpose::kNo), operand(first.b, args.transpose_b), e);
    if (copies != OperandCopies::kPanels) {
      return sum_by_sgemm(exec, args, e, copies == OperandCopies::kTransposedB);
    }
  }
  PackedProductSum(exec, args, e).run(exec);
}

}  // namespace trireme::cpu
