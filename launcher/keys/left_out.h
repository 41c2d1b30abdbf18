// Samples that could not be read and were left out or replaced: each is reported once and counted over all
// ranks.
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
  /// Collective. Adds the samples that the data sets of any rank left out; rank 0 warns about new ones. A
  /// null data set is skipped.
  void gather(Communicator& comm, const std::vector<const Dataset*>& datasets);
  std::int64_t count() const { return static_cast<std::int64_t>(reasons_.size()); }

 private:
  std::set<std::string> reasons_;
};

}  // namespace trireme
