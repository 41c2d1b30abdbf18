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

/// Begins a line of standard error that holds a record.
inline constexpr std::string_view kRecordPrefix = "trireme-record: ";

class RecordWriter {
 public:
  struct Options {
    std::filesystem::path out;
    std::string attempt;  // its tag; empty: nobody supervises the job
    int rank = 0;
    std::string host;  // that the rank runs on
    /// A file system that hangs for longer does not keep a failing rank from ending its job.
    std::chrono::milliseconds patience{1000};
  };
  explicit RecordWriter(Options options);

  /// The output folder is this job's from here on: an unsupervised job writes no record before, so that one
  /// that is refused leaves nothing. Called on every rank; rank 0 removes the records of earlier runs.
  void claim_output() noexcept;

  /// Writes a file into the output folder, whole or not at all, or into the host's folder where the output
  /// folder does not take it in time. The record goes to standard error as a line, too, where the
  /// supervisor may not see these files: it runs on another host, or neither folder took the file. From any
  /// thread. Failures are silent, as this is called while a rank fails.
  void write(RunRecord record) noexcept;

 private:
  const Options options_;
  const RecordFolders folders_;
  std::mutex mutex_;
  bool owns_output_;
};

}  // namespace trireme
