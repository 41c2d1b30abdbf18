// Reads the messages of Open MPI 4.1's mpirun about a job: the only text that the supervisor interprets.
// Ranks write records instead (launcher/records).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

struct MpirunWords {
  std::string verdict;  // on the rank that ended first, or why it started nothing, with what to do; or empty
  int rank = -1;        // that the verdict names
  std::string host;     // likewise, as mpirun names it
  std::string lost_host;  // whose daemon it lost; empty: none
  bool refuses = false;   // it has started nothing and would not the next time: it runs as root, it has fewer
                          // slots than ranks, or it does not know an option
};

/// `log`: the output of mpirun and its ranks.
MpirunWords read_mpirun_words(const std::filesystem::path& log);

/// True for a line with which mpirun begins to end the job.
bool ends_job(std::string_view line);

}  // namespace trireme
