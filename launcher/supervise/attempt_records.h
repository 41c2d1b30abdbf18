// The records of an attempt's ranks: read from files on this host, and from lines of the job's output.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/records/record_folders.h"
#include "launcher/records/run_record.h"

namespace trireme {

class AttemptRecords {
 public:
  /// `tag`: the attempt's tag, see job_process.h.
  AttemptRecords(const std::filesystem::path& out, const std::string& tag)
      : folders_(record_folders(out, tag)), here_(supervisor_host(tag)) {}

  /// Reads the files that are new in the two folders of records.
  void look();
  /// Stores the record if `line` holds one, and returns true.
  bool take(std::string_view line);
  void add(RunRecord record) { records_.push_back(std::move(record)); }

  /// The earliest failure with a culprit, else the earliest failure; null if there is none. Ignores a report
  /// of a silent host if it comes from a rank on another host and ranks ran on this host, too: the reporting
  /// host may itself be cut off.
  std::optional<RunRecord> failure() const;
  /// The earliest record that failure() ignores, without its culprit; null if there is none.
  std::optional<RunRecord> doubtful_failure() const;
  /// The record of the resume from a checkpoint; null if the job began at step 0.
  std::optional<RunRecord> resumed() const { return first(RunRecord::Event::kResumed); }
  /// Host names by rank; empty if the ranks never joined.
  std::vector<std::string> rank_hosts() const;

  /// Removes the host's folder of records outside the output folder.
  void remove_host_folder() const noexcept;

 private:
  std::optional<RunRecord> first(RunRecord::Event event) const;
  bool is_doubtful(const RunRecord& record) const;

  const RecordFolders folders_;
  const std::string here_;
  std::set<std::filesystem::path> known_;
  std::vector<RunRecord> records_;
};

}  // namespace trireme
