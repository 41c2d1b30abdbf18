// A model head that is newly initialised instead of loaded from the file of the rest of the model.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct NewHead {
  enum class When : std::uint8_t {
    kMissing,  // if the file has no tensor of that name
    kAlways,   // whatever the file contains
  };

  std::string prefix = {};  // name prefix of its tensors; empty: no new head
  When when = When::kMissing;

  bool has(const std::string& tensor) const { return !prefix.empty() && tensor.starts_with(prefix); }
};

}  // namespace trireme
