// Samples that could not be read and were left out or replaced: named once, counted over all ranks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/data/dataset.h"

namespace trireme {

class LeftOut {
 public:
  /// Collective. Adds what the data sets of any rank have left out (null: no data set); the first rank warns
  /// of those that are new.
  void gather(Communicator& comm, const std::vector<const Dataset*>& datasets);
  std::int64_t count() const { return static_cast<std::int64_t>(reasons_.size()); }

 private:
  std::set<std::string> reasons_;
};

}  // namespace trireme
