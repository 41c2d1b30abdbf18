#include "launcher/supervise/attempt_end.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "launcher/host/exit_code.h"
#include "launcher/page/run_files.h"
#include "launcher/supervise/job_output.h"
#include "launcher/supervise/mpirun_words.h"
#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

constexpr std::size_t kTailBytes = 1 << 16;

}  // namespace

std::int64_t last_step(const std::filesystem::path& metrics) {
  std::istringstream lines(last_lines_within(metrics.parent_path(), metrics.filename().string(), kTailBytes));
  std::int64_t step = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const auto parsed = parse_small_json(line);
    if (!parsed.is_object() || !parsed.contains("step")) continue;
    if (parsed["step"].is_number_integer()) step = parsed["step"];
  }
  return step;
}

AttemptEnd::AttemptEnd(const Attempt& attempt, OutputFolder out, History& history, HostPool* hosts)
    : attempt_(attempt),
      out_(std::move(out)),
      history_(history),
      hosts_(hosts),
      records_(out_.root, attempt.tag) {}

void AttemptEnd::look() {
  records_.look();
  if (const auto failure = records_.failure(); failure && !announced_) announce(*failure);
}

void AttemptEnd::announce(const RunRecord& failure) {
  if (announced_) return;
  announced_ = failure;
  const std::string text = describe(failure);
  history_.note("verdict", text);
  say(fmt::format("attempt {} fails: {}", attempt_.number, text));
}

// The supervisor's own verdict wins, then a recorded failure with a known culprit, then the first failure
// announced, then a doubtful one.
std::optional<RunRecord> AttemptEnd::failure() const {
  if (announced_ && (announced_->reporter < 0 || announced_->has_culprit())) return announced_;
  const auto recorded = records_.failure();
  if (recorded && (!announced_ || recorded->has_culprit())) return recorded;
  return announced_ ? announced_ : records_.doubtful_failure();
}

void AttemptEnd::note_resume() {
  const auto resumed = records_.resumed();
  if (!resumed) return;
  if (!resumed->memory.empty()) {
    const std::string note = "went on from " + resumed->memory;
    history_.note("memory", note);
    say(fmt::format("attempt {} {}", attempt_.number, note));
  }
  if (resumed->step + 1 < attempt_.first_step)
    history_.note(
        "resumed",
        fmt::format("from the checkpoint of step {}: of those of later steps none was whole", resumed->step));
}

Attempt::End AttemptEnd::conclude(int exit_code, const std::filesystem::path& log, bool is_stopping) {
  records_.look();
  note_resume();
  const auto resumed = records_.resumed();
  const std::int64_t first_step = resumed ? resumed->step + 1 : attempt_.first_step;
  Attempt::End end{.exit_code = exit_code, .step = std::max(first_step, last_step(out_.metrics()) + 1)};
  EndEvidence evidence{.failure = failure(), .mpirun = read_mpirun_words(log)};
  auto code = static_cast<ExitCode>(exit_code);
  if (code != ExitCode::kDone && code != ExitCode::kStopped) {
    if (!evidence.failure && evidence.mpirun.refuses) code = ExitCode::kBadInput;
    end.exit_code = static_cast<int>(code);
    end.verdict = describe_end(evidence);
    if (evidence.failure) {
      end.code = evidence.failure->code;
      end.system_error = evidence.failure->facts.system_error;
    }
  }
  const bool failed = code != ExitCode::kDone && code != ExitCode::kBadInput && code != ExitCode::kStopped;
  // A full disk affects every host alike, and the probes of hosts need its files.
  if (!failed || is_stopping || hosts_ == nullptr || is_disk_failure(end.system_error)) return end;
  try {
    end.host = host_to_blame(evidence);
  } catch (const Error&) {  // the host file is gone; the next attempt reports that
    return end;
  }
  if (end.host.empty()) return end;
  const std::string what = fmt::format(
      "host {} struck in attempt {}: it is not used again until others fail too, where there are others",
      end.host, attempt_.number);
  history_.note("struck", what);
  say(what);
  return end;
}

std::string AttemptEnd::host_to_blame(const EndEvidence& found) {
  if (hosts_->num_hosts() < 2) return "";  // no other host could be chosen
  EndEvidence evidence = found;
  evidence.rank_hosts = records_.rank_hosts();
  evidence.names = hosts_->names();
  const std::string culprit = culprit_host(evidence);
  const std::string before = hosts_->describe_missing();
  // The host is known to be silent; it is probed again while the next attempt runs.
  if (!culprit.empty() && !evidence.mpirun.lost_host.empty())
    hosts_->lose(culprit, "mpirun has lost the connection to it");
  else if (!culprit.empty() && evidence.failure && evidence.failure->blames_silent_host())
    hosts_->lose(culprit, "it has not acknowledged what ranks sent to it");
  hosts_->examine(HostPool::Strictness::kLeaveOut);
  const std::string missing = hosts_->describe_missing();
  if (missing != before && !missing.empty()) {
    history_.note("hosts", "cannot be used:" + missing);
    say("hosts that cannot be used:" + missing);
  }
  if (!culprit.empty()) return culprit;
  // A host that went silent as a whole may be named in no record.
  for (const std::string& name : attempt_.hosts) {
    if (hosts_->is_missing(name)) return name;
  }
  return "";
}

}  // namespace trireme
