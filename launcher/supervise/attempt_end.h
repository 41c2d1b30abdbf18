// Finds what ended an attempt and which host is at fault: while mpirun still ends the job, and once it has.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/supervise/attempt_records.h"
#include "launcher/supervise/culprit_host.h"
#include "launcher/supervise/history.h"
#include "launcher/supervise/host_pool.h"
#include "launcher/train/output_folder.h"

namespace trireme {

class AttemptEnd {
 public:
  /// `hosts`: null without a host file.
  AttemptEnd(const Attempt& attempt, OutputFolder out, History& history, HostPool* hosts);

  AttemptRecords& records() { return records_; }
  /// Announces the first failure that ranks have recorded.
  void look();
  /// Announces a failure that the supervisor saw, once the first time.
  void announce(const RunRecord& failure);
  /// True once a failure was announced.
  bool is_announced() const { return announced_.has_value(); }
  bool blames_silent_host() const { return announced_ && announced_->blames_silent_host(); }

  /// The end of the attempt, whose processes are gone. `log`: its output. `is_stopping`: the user has told
  /// the supervisor to stop; no host is blamed then.
  Attempt::End conclude(int exit_code, const std::filesystem::path& log, bool is_stopping);

 private:
  void note_resume();
  std::optional<RunRecord> failure() const;
  std::string host_to_blame(const EndEvidence& evidence);

  const Attempt attempt_;
  const OutputFolder out_;
  History& history_;
  HostPool* const hosts_;
  AttemptRecords records_;
  std::optional<RunRecord> announced_;
};

/// The step of the last whole line of metrics.jsonl; 0 where there is none.
std::int64_t last_step(const std::filesystem::path& metrics);

}  // namespace trireme
