// Folders on the supervisor's host for the files that mpirun and the ranks of one attempt create outside the
// output folder: mpirun's session and shared memory (vader_segment.*). Killed processes leave such files
// behind, under names that do not identify the job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

class AttemptFolder {
 public:
  /// `tag`: the attempt's tag, see job_process.h. Creates nothing.
  explicit AttemptFolder(const std::string& tag);

  /// Creates the folders below /tmp/trireme-UID and /dev/shm/trireme-UID ([Note: private folders]). Returns
  /// the mpirun options that select them. `options`: the user's mpirun options, which have priority. A folder
  /// that cannot be created is left out with a warning. Only for jobs on this host: mpirun would expect the
  /// same folders on other hosts.
  std::vector<std::string> make(const std::vector<std::string>& options) const;

  /// Removes the folders with their contents. Call after all processes of the attempt have ended.
  void remove() const noexcept;

 private:
  std::filesystem::path session_, memory_;  // empty: none on this host
};

}  // namespace trireme
