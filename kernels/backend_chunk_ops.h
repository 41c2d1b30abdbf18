// Arguments of the ops that work on tensor chunks: sums of products, and logits whose classes are split into
// pieces, one piece per chunk. Contracts: see [Note: kernel contracts] in backend.h.
//
// Three statistics describe a row of logits in a piece: the maximum m, the sum s of exp(logit - m), and the
// target's logit z. z is 0 where the target is not in the piece. All three are 0 for a row that does not
// count. Two neighbouring pieces combine to the larger m, the sum of s exp(m - larger m), and the sum of z.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/op_table.h"

namespace trireme {

/// d = the sum of products, all of one shape and dtype. K of each product is split into `groups` equal
/// ranges. Each range is summed separately, and these sums are added in order in one binary tree. With one
/// group, the bits equal MatmulArgs for each product followed by AddArgs.
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
  int groups = 1;        // a power of two that divides K
  ConstTensorView bias;  // [N] fp32, or undefined; added to the first product
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

/// SoftmaxCrossEntropyArgs for one piece of the classes, with one target a row. Uses the statistics of all
/// pieces.
struct PieceCrossEntropyArgs {
  static constexpr const char* kName = "piece_cross_entropy";
  TensorView logits;           // [M, V'], of classes [first_class, first_class + V')
  ConstTensorView targets;     // [M] int32; negative = ignored
  ConstTensorView statistics;  // [3, M] fp32, of all classes
  TensorView loss;             // [] fp32: over all classes; or undefined
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
