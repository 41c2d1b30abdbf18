// The folders that hold the records of a job.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

struct RecordFolders {
  std::filesystem::path shared;  // in the output folder
  /// On each host, for ranks that cannot write to `shared`: a private folder below the temporary folder
  /// ([Note: private folders]). Empty: none.
  std::filesystem::path host;
};

/// `attempt`: the attempt's tag (launcher/supervise/job_process.h). Empty for an unsupervised job, which has
/// no folder outside its output folder.
RecordFolders record_folders(const std::filesystem::path& out, const std::string& attempt);

/// The attempt's name in file names: "4711-98765-2" for the tag "4711.98765@host#2".
std::string attempt_name(const std::string& tag);
/// The supervisor's host in a tag: "host" in the example above.
std::string supervisor_host(const std::string& tag);

}  // namespace trireme
