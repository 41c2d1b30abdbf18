// Folders on the supervisor's host for the files that mpirun and the ranks of one attempt make outside of the
// output folder: mpirun's session, and the memory that ranks share (vader_segment.*). Killed processes leave
// them behind, under names that do not show the job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

class AttemptFolder {
 public:
  /// `tag`: of the attempt, see job_process.h. Makes nothing.
  explicit AttemptFolder(const std::string& tag);

  /// Makes the folders, below /tmp/trireme-UID and /dev/shm/trireme-UID ([Note: private folders]), and
  /// returns the options by which mpirun uses them. `options`: those that mpirun gets anyway, which have
  /// priority. A folder that cannot be made is left out, with a warning. For jobs of
  /// this host alone: mpirun would look for the same folders on others.
  std::vector<std::string> make(const std::vector<std::string>& options) const;

  /// Removes them with everything in them. To be called when all processes of the attempt have ended.
  void remove() const noexcept;

 private:
  std::filesystem::path session_, memory_;  // empty: none on this host
};

}  // namespace trireme
