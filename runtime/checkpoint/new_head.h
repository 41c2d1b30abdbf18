// A head that does not come from the file that the rest of a model starts from.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

struct NewHead {
  enum class When : std::uint8_t {
    kMissing,  // where the file has no tensor of that name
    kAlways,   // whatever the file has
  };

  std::string prefix = {};  // of the names of its tensors; empty: all of the model is in the file
  When when = When::kMissing;

  bool has(const std::string& tensor) const { return !prefix.empty() && tensor.starts_with(prefix); }
};

}  // namespace trireme
