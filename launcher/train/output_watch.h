// Detects that the output folder of a running job was renamed, removed or replaced. Open files still accept
// writes then, but the data would be lost.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launcher/records/output_folder.h"
#include "runtime/base/file_identity.h"

namespace trireme {

class OutputWatch {
 public:
  struct Loss {
    std::string what;                             // a sentence that names the folder and the change
    std::optional<std::filesystem::path> refuge;  // a folder for a last checkpoint
    std::string advice;                           // how to resume from it
  };

  /// Watches the folder and its metrics.jsonl from here on. Throws Error(kRuntime) if they do not exist.
  explicit OutputWatch(OutputFolder out);
  ~OutputWatch();
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  /// The change; null if there is none. Costs two system calls.
  std::optional<Loss> look() const;

 private:
  Loss describe_lost_folder(bool has_successor) const;

  OutputFolder out_;
  int fd_ = -1;  // of the folder; independent of its name
  FileIdentity folder_, metrics_;
};

}  // namespace trireme
