#include "parallel/layout/batch_layout.h"

#include "runtime/base/error.h"

namespace trireme {

void BatchLayout::check() const {
  TRIREME_CHECK(global_batch >= 1 && micro_batch >= 1 && data_ranks >= 1,
                "global_batch {}, micro_batch {} and data ranks {} must all be positive", global_batch,
                micro_batch, data_ranks);
  const std::int64_t unit = micro_batch * data_ranks;
  if (global_batch % unit == 0) return;
  const std::int64_t below = global_batch / unit * unit;
  std::string fits;  // micro-batch sizes that divide this global batch on these ranks
  if (global_batch % data_ranks == 0) {
    for (std::int64_t m = 1; m <= global_batch / data_ranks; ++m) {
      if (global_batch / data_ranks % m == 0) fits += (fits.empty() ? "" : ", ") + std::to_string(m);
    }
  }
  throw Error(
      ErrorCode::kInvalidInput,
      fmt::format("global_batch {} is no multiple of micro_batch {} x {} data ranks = {}; "
                  "global_batch {}{} would work{}",
                  global_batch, micro_batch, data_ranks, unit, below > 0 ? fmt::format("{} or ", below) : "",
                  below + unit, fits.empty() ? "" : "; with this global_batch, micro_batch " + fits));
}

}  // namespace trireme
