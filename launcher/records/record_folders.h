// The folders that hold the records of a job.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

struct RecordFolders {
  std::filesystem::path shared;  // in the output folder
  /// On each host, used by ranks that cannot write into `shared`: a private folder below the temporary one
  /// ([Note: private folders]). Empty: none.
  std::filesystem::path host;
};

/// `attempt`: its tag (launcher/supervise/job_process.h); empty: of a job that nobody supervises, which has
/// no folder outside of its output folder.
RecordFolders record_folders(const std::filesystem::path& out, const std::string& attempt);

/// "4711-98765-2" of the tag "4711.98765@host#2": the name of an attempt in names of folders.
std::string attempt_name(const std::string& tag);
/// "host" of that tag: the supervisor's.
std::string supervisor_host(const std::string& tag);

}  // namespace trireme
