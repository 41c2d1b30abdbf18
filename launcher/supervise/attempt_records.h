// The records of an attempt, as its ranks write them: in files that this host sees, and in lines of their
// output.
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
  /// `tag`: of the attempt, see job_process.h.
  AttemptRecords(const std::filesystem::path& out, const std::string& tag)
      : folders_(record_folders(out, tag)) {}

  /// Reads the files that are new. Costs a look into two folders.
  void look();
  /// True for a line that holds a record, which is taken.
  bool take(std::string_view line);
  void add(RunRecord record) { records_.push_back(std::move(record)); }

  /// The earliest failure that has a culprit, else the earliest one; nothing without any.
  std::optional<RunRecord> failure() const;
  /// The resume from a checkpoint; nothing where the job began at step 0.
  std::optional<RunRecord> resumed() const { return first(RunRecord::Event::kResumed); }
  /// Host names by rank; empty where the ranks have not joined.
  std::vector<std::string> rank_hosts() const;

  /// Removes the folder on this host that is outside of the output folder.
  void remove_host_folder() const noexcept;

 private:
  std::optional<RunRecord> first(RunRecord::Event event) const;

  const RecordFolders folders_;
  std::set<std::filesystem::path> known_;
  std::vector<RunRecord> records_;
};

}  // namespace trireme
