// A failure or another event of a job, as data: ranks write records, the supervisor decides by them.
// README.md has the schema.
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
    kResumed,  // the state of a checkpoint is restored
    kFailed,   // a rank failed, or all agreed to end the job
    kVerdict,  // a watchdog or the supervisor saw another rank or a host fail
  };

  Event event = Event::kFailed;
  std::int64_t time_ns = 0;        // Unix time
  int reporter = -1;               // rank that wrote it; -1: the supervisor
  std::string reporter_host = {};  // of that rank
  // kFailed and kVerdict:
  ErrorCode code = ErrorCode::kRuntime;
  std::string message = {};  // for people, in lines that a terminal may show, with fields in place of keys
  ErrorFacts facts = {};
  // kResumed:
  std::int64_t step = 0;    // of the checkpoint
  std::string memory = {};  // describes the checkpoint, where it came from the memory of hosts
  // kStarted:
  std::vector<std::string> hosts = {};  // by rank

  bool is_failure() const { return event == Event::kFailed || event == Event::kVerdict; }
  /// True where a rank or a host is known to be at fault.
  bool has_culprit() const { return facts.rank >= 0 || !facts.host.empty(); }
  /// True where a host as a whole is at fault: it answers nothing.
  bool blames_silent_host() const { return facts.rank < 0 && !facts.host.empty(); }
};

std::string_view name(RunRecord::Event event);

/// The time of now, as records have it.
std::int64_t unix_time_ns();

/// A record of this error, with the time of now.
RunRecord record_of(RunRecord::Event event, const Error& error);

/// One line of JSON, without a line break.
std::string to_json(const RunRecord& record);
/// The record in a line or a file of JSON; nothing where it is damaged.
std::optional<RunRecord> parse_record(std::string_view json);

}  // namespace trireme
