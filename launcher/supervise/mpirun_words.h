// Parses the messages of Open MPI 4.1's mpirun about a job. This is the only text that the supervisor
// interprets; ranks write records instead (launcher/records).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

struct MpirunWords {
  std::string verdict;    // which rank ended first, or why nothing was started and what to do; may be empty
  int rank = -1;          // named by the verdict
  std::string host;       // named by the verdict, in mpirun's form
  std::string lost_host;  // the host whose daemon mpirun lost; empty: none
  // Nothing was started and a retry would fail too: it lacks slots, or has an unknown option.
  bool refuses = false;
};

/// `log`: the output of mpirun and its ranks.
MpirunWords read_mpirun_words(const std::filesystem::path& log);

/// True for a line that mpirun prints when it begins to end the job.
bool ends_job(std::string_view line);

/// Recognises mpirun's reports about ranks that end with a code other than 0, as they do after a stop
/// request: the lines between two rules of dashes, the rules, and the line about the signal that it forwards.
class MpirunReports {
 public:
  /// Lines in order.
  bool take(std::string_view line);

 private:
  bool in_frame_ = false;
};

}  // namespace trireme
