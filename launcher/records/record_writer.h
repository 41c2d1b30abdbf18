// Writes the records of one rank.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "launcher/records/record_folders.h"
#include "launcher/records/run_record.h"

namespace trireme {

/// Prefix of a line on standard error that contains a record.
inline constexpr std::string_view kRecordPrefix = "trireme-record: ";

class RecordWriter {
 public:
  struct Options {
    std::filesystem::path out;
    std::string attempt;  // its tag; empty: the job is unsupervised
    int rank = 0;
    std::string host;  // of this rank
    /// A failing rank waits no longer than this for a file system before it ends its job.
    std::chrono::milliseconds patience{1000};
  };
  explicit RecordWriter(Options options);

  /// The output folder belongs to this job from here on. An unsupervised job writes no record before this
  /// call, so a refused job leaves no files. Called on every rank; rank 0 removes the records of earlier
  /// runs.
  void claim_output() noexcept;

  /// Writes a file, atomically, to the output folder, or to the host's folder if the output folder does not
  /// accept it in time. Also writes the record as a line to standard error if the supervisor may not see
  /// these files: it runs on another host, or neither folder accepted the file. Thread-safe. Failures are
  /// silent, because the calling rank is already failing.
  void write(RunRecord record) noexcept;

 private:
  const Options options_;
  const RecordFolders folders_;
  std::mutex mutex_;
  bool owns_output_;
};

}  // namespace trireme
