// Finds what ended an attempt and which host is at fault: both while mpirun is ending the job and afterwards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/records/history.h"
#include "launcher/records/output_folder.h"
#include "launcher/supervise/attempt_records.h"
#include "launcher/supervise/culprit_host.h"
#include "launcher/supervise/host_pool.h"

namespace trireme {

class AttemptEnd {
 public:
  /// `hosts`: null without a host file.
  AttemptEnd(const Attempt& attempt, OutputFolder out, History& history, HostPool* hosts);

  AttemptRecords& records() { return records_; }
  /// Announces the first failure in the ranks' records.
  void look();
  /// Announces a failure that the supervisor saw. Only the first one is announced.
  void announce(const RunRecord& failure);
  /// True once a failure was announced.
  bool is_announced() const { return announced_.has_value(); }
  bool blames_silent_host() const { return announced_ && announced_->blames_silent_host(); }

  /// Describes the end of the attempt. Call when its processes are gone. `log`: the attempt's output.
  /// `is_stopping`: the user stopped the supervisor; then no host is blamed.
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

/// The step of the last whole line of metrics.jsonl; 0 if there is none.
std::int64_t last_step(const std::filesystem::path& metrics);

}  // namespace trireme
