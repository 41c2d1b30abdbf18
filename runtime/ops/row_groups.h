// Sums over rows in groups: see [Note: row groups] in runtime/tensor_axis.h.
#pragma once

#include <functional>

#include "runtime/context.h"

namespace trireme::ops {

/// Rows [first, first + count) of this rank's rows.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// The sum, [elems] fp32, over all rows of a micro-batch. This rank has `rows` of them: all, or its shard.
/// `sum_rows` overwrites its second argument, [elems], with the sum over a range of rows. Without sequence
/// shards the call is local. Otherwise it is collective over the tensor axis: one gather_partials().
Tensor sum_in_row_groups(Context& ctx, std::int64_t rows, int groups, std::int64_t elems,
                         const std::function<void(const RowRange&, const Tensor&)>& sum_rows);

/// Writes or adds a sum, flat like the parameter, to the target of its gradient. Does nothing for kIgnore.
void put_gradient(const Context& ctx, const GradientTarget& target, const Tensor& sum);

}  // namespace trireme::ops
