// A failure or another event of a job as data. Ranks write records; the supervisor makes its decisions from
// them. README.md has the schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {

struct RunRecord {
  enum class Event : std::uint8_t {
    kStarted,  // all ranks have joined
    kResumed,  // the state of a checkpoint was restored
    kFailed,   // a rank failed, or all ranks agreed to end the job
    kVerdict,  // a watchdog or the supervisor saw another rank or a host fail
  };

  Event event = Event::kFailed;
  std::int64_t time_ns = 0;        // Unix time
  int reporter = -1;               // the writing rank; -1: the supervisor
  std::string reporter_host = {};  // the reporter's
  // kFailed and kVerdict:
  ErrorCode code = ErrorCode::kRuntime;
  std::string message = {};  // for people; names fields, not keys; safe to print on a terminal
  ErrorFacts facts = {};
  // kResumed:
  std::int64_t step = 0;    // of the checkpoint
  std::string memory = {};  // describes the checkpoint if it came from the memory of hosts
  // kStarted:
  std::vector<std::string> hosts = {};  // by rank

  bool is_failure() const { return event == Event::kFailed || event == Event::kVerdict; }
  /// True if a rank or a host is known to be at fault.
  bool has_culprit() const { return facts.rank >= 0 || !facts.host.empty(); }
  /// True if a whole host is at fault because it does not answer.
  bool blames_silent_host() const { return facts.rank < 0 && !facts.host.empty(); }
};

std::string_view name(RunRecord::Event event);

/// The current time, in the unit of records.
std::int64_t unix_time_ns();

/// A record of this error with the current time.
RunRecord record_of(RunRecord::Event event, const Error& error);

/// One line of JSON, without a line break.
std::string to_json(const RunRecord& record);
/// Parses a line or a file of JSON; nothing if it is damaged.
std::optional<RunRecord> parse_record(std::string_view json);

}  // namespace trireme
