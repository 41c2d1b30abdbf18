// Maps tensor names changed by PyTorch wrappers and older formats back to the model's own names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns `stored` without "module." at its start (DataParallel), and without "_orig_mod." (torch.compile)
/// and the wrappers of FSDP and activation checkpointing anywhere. Renames "gamma" and "beta" of a norm to
/// "weight" and "bias". `changes` receives the changes, for the log.
std::string plain_tensor_name(std::string_view stored, std::set<std::string>& changes);

/// The stored names of a file or folder by plain name.
class TensorNames {
 public:
  /// Throws Error(kInvalidInput) naming `place`, `stored` and the other tensor with the same plain name.
  void add(const std::string& stored, const std::string& plain, const std::string& place);
  /// The stored name, or null.
  const std::string* find(const std::string& plain) const;
  const std::map<std::string, std::string>& all() const { return stored_; }

 private:
  std::map<std::string, std::string> stored_;  // by plain name
};

/// One log line; empty for no changes.
std::vector<std::string> describe_name_changes(const std::set<std::string>& changes,
                                               const std::string& place);

}  // namespace trireme
