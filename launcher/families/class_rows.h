// Reorders the rows of an imported class head to the job's labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/tensor_source.h"
#include "runtime/data/class_names.h"

namespace trireme {

/// The map from classes of the weights to labels of the data.
struct ClassMatch {
  std::vector<std::int64_t> rows;  // row of the weights for each label; empty: label i is row i
  std::vector<std::string> names;  // by label, for all rows; empty: unknown
  std::string note;                // for the log; empty: the order is unchanged
};

/// Matches by name. `weights` has names for its first rows, `data` for its first labels; if either has none,
/// nothing is reordered. Classes that the data lacks come last, in their order. Throws Error(kInvalidInput)
/// with both lists if the weights lack a class of the data, or if the name of a class occurs in two rows.
ClassMatch match_classes(const ClassNames& weights, const ClassNames& data, std::int64_t num_rows);

/// `weights` with reordered rows in the tensors "<layer>weight" and "<layer>bias".
std::unique_ptr<TensorSource> with_class_rows(std::unique_ptr<TensorSource> weights, std::string_view layer,
                                              std::vector<std::int64_t> rows);

}  // namespace trireme
