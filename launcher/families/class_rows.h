// The rows of a class head that comes from elsewhere, in the order of the job's labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/tensor_source.h"
#include "runtime/data/class_names.h"

namespace trireme {

/// How classes of the weights become labels of the data.
struct ClassMatch {
  std::vector<std::int64_t> rows;  // by label, of the weights; empty: label i is row i
  std::vector<std::string> names;  // by label, of all rows; empty: not known
  std::string note;                // for the log; empty: the order is the same
};

/// Matches by name. `weights` has a name for each of the first rows, `data` for each of the first labels;
/// either may have none, and then nothing is reordered. Classes that the data lacks come last, in their
/// order. Throws Error(kInvalidInput) with both lists where the data has a class that the weights lack, or
/// two rows have the name of one.
ClassMatch match_classes(const ClassNames& weights, const ClassNames& data, std::int64_t num_rows);

/// `weights` with the rows of the tensors "<layer>weight" and "<layer>bias" in another order.
std::unique_ptr<TensorSource> with_class_rows(std::unique_ptr<TensorSource> weights, std::string_view layer,
                                              std::vector<std::int64_t> rows);

}  // namespace trireme
