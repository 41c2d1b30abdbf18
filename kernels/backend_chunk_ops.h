// The arguments of the operator table's entries for what is cut into tensor chunks: sums of products, and
// logits in pieces of the classes, one a chunk. The contracts are those of backend.h.
//
// A row of logits is known by three numbers, its statistics: the maximum m, s = sum exp(logit - m), and the
// target's logit z, 0 where the target is not in the piece. Those of a row that does not count are 0. Of two
// pieces beside each other: max(m), the sum of each s exp(m - max(m)), and the sum of z.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/op_table.h"

namespace trireme {

/// d = the sum of products, all of one shape and dtype. K of each is cut into `groups` equal ranges, each
/// range is summed on its own, and these sums are added in one binary tree, in their order. With one group
/// the bits are those of MatmulArgs for each product, and of AddArgs.
struct ProductSumArgs {
  static constexpr const char* kName = "product_sum";
  struct Factors {
    ConstTensorView a;  // [M, K]
    ConstTensorView b;  // [K, N], or [N, K] with transpose_b
  };
  std::vector<Factors> products;  // a power of two
  TensorView d;                   // [M, N] fp32
  Transpose transpose_b = Transpose::kNo;
  MathMode math = MathMode::kFp32;
  int groups = 1;        // a power of two, which divides K
  ConstTensorView bias;  // [N] fp32, or undefined: added to the first product
};
template <class Visit>
void visit_views(ProductSumArgs& args, Visit visit) {
  for (ProductSumArgs::Factors& factors : args.products)
    visit_each<ViewUse::kRead>(visit, factors.a, factors.b);
  visit_each<ViewUse::kRead>(visit, args.bias);
  visit_each<ViewUse::kWrite>(visit, args.d);
}

struct LogitStatisticsArgs {
  static constexpr const char* kName = "logit_statistics";
  ConstTensorView logits;   // [M, V'], of classes [first_class, first_class + V')
  ConstTensorView targets;  // [M] int32; negative = ignored
  TensorView statistics;    // [3, M] fp32: maxima, sums, logits of targets
  std::int64_t first_class = 0;
  std::int64_t num_classes = 0;  // of all pieces
};
template <class Visit>
void visit_views(LogitStatisticsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.logits, args.targets);
  visit_each<ViewUse::kWrite>(visit, args.statistics);
}

struct JoinLogitStatisticsArgs {
  static constexpr const char* kName = "join_logit_statistics";
  ConstTensorView a, b;  // [3, M] fp32
  TensorView out;        // likewise; may be a or b
};
template <class Visit>
void visit_views(JoinLogitStatisticsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.a, args.b);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// SoftmaxCrossEntropyArgs for a piece of the classes, with one target a row, by the statistics of all
/// pieces.
struct PieceCrossEntropyArgs {
  static constexpr const char* kName = "piece_cross_entropy";
  TensorView logits;           // [M, V'], of classes [first_class, first_class + V')
  ConstTensorView targets;     // [M] int32; negative = ignored
  ConstTensorView statistics;  // [3, M] fp32, of all classes
  TensorView loss;             // [] fp32: of all classes; or undefined
  std::int64_t first_class = 0;
  float inv_num_targets = 1.0f;
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1
  bool write_gradient = false;
};
template <class Visit>
void visit_views(PieceCrossEntropyArgs& args, Visit visit) {
  visit(args.logits, args.write_gradient ? ViewUse::kUpdate : ViewUse::kRead);
  visit_each<ViewUse::kRead>(visit, args.targets, args.statistics, args.gradient_scale);
  visit_each<ViewUse::kWrite>(visit, args.loss);
}

/// The ops of this file, in the order of their structs.
using ChunkOps = OpList<ProductSumArgs, LogitStatisticsArgs, JoinLogitStatisticsArgs, PieceCrossEntropyArgs>;

}  // namespace trireme
