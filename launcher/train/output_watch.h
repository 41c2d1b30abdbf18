// Notices when the folder that a run writes is renamed, removed or replaced under it: what is open goes on
// taking what is written then, and it would be lost.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/train/output_folder.h"
#include "runtime/base/file_identity.h"

namespace trireme {

class OutputWatch {
 public:
  struct Loss {
    std::string what;                             // a sentence that names the folder and what became of it
    std::optional<std::filesystem::path> refuge;  // the folder that a last checkpoint can go to
    std::string advice;                           // how to go on from it
  };

  /// From here on, of the folder and its metrics.jsonl, which must exist. Throws Error(kRuntime) otherwise.
  explicit OutputWatch(OutputFolder out);
  ~OutputWatch();
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  /// The change found; empty while all is in its place. Two system calls.
  std::optional<Loss> look() const;

 private:
  Loss describe_lost_folder(bool has_successor) const;

  OutputFolder out_;
  int fd_ = -1;  // of the folder, whatever its name
  FileIdentity folder_, metrics_;
};

}  // namespace trireme
