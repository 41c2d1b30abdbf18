// Names of tensors that wrappers of PyTorch and older formats changed, as the model itself calls them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// `stored` without "module." at its beginning (DataParallel), without "_orig_mod." (torch.compile) and the
/// wrappers of FSDP and of activation checkpointing anywhere, and with "weight" and "bias" for the "gamma"
/// and "beta" of a norm. `changes`: receives what was changed, for the log.
std::string plain_tensor_name(std::string_view stored, std::set<std::string>& changes);

/// Every name of a file or folder by its plain one.
class TensorNames {
 public:
  /// Throws Error(kInvalidInput) naming `place`, `stored` and the other tensor of the same plain name.
  void add(const std::string& stored, const std::string& plain, const std::string& place);
  /// The name in the file; null: there is none.
  const std::string* find(const std::string& plain) const;
  const std::map<std::string, std::string>& all() const { return stored_; }

 private:
  std::map<std::string, std::string> stored_;  // by plain name
};

/// A line for the log; empty for no changes.
std::vector<std::string> describe_name_changes(const std::set<std::string>& changes,
                                               const std::string& place);

}  // namespace trireme
