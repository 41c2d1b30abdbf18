// Sums over rows in groups: see [Note: row groups] in runtime/tensor_axis.h.
#pragma once

#include <functional>

#include "runtime/context.h"

namespace trireme::ops {

/// Rows [first, first + count) of what this rank has.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// The sum over all rows of a micro-batch, [elems] fp32, of which this rank has `rows`: all, or those of its
/// shard. `sum_rows` overwrites its second argument, [elems], with the sum over a range of rows. Of no
/// sequence shards it is the work of one rank, else collective over the tensor axis: one gather_partials().
Tensor sum_in_row_groups(Context& ctx, std::int64_t rows, int groups, std::int64_t elems,
                         const std::function<void(const RowRange&, const Tensor&)>& sum_rows);

}  // namespace trireme::ops
