// What a supervisor has done and seen, as JSON lines in the output folder: for people, and for the supervisor
// that takes over after this one's death.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {

/// One start of the job under mpirun, and its end.
struct Attempt {
  int number = 1;  // counted over all of the folder's history
  int num_ranks = 1;
  std::vector<std::string> hosts = {};  // names of the host file; empty: there is none
  std::int64_t began_s = 0;             // Unix time, of what was read; 0: begun by this process
  std::int64_t first_step = 1;          // that it is to compute: the newest whole checkpoint's and one
  std::string process;  // empty: not started yet; mpirun's mark (runtime/checkpoint/writer_mark.h)
  std::string tag;      // of its processes: see job_process.h

  struct End {
    int exit_code = 0;      // as a shell has it: 128 and the number of the signal that ended mpirun
    std::int64_t step = 1;  // that was not finished
    std::string verdict;    // for people: what ended it, as ranks recorded it or mpirun wrote; may be empty
    double seconds = 0;     // from its start on
    std::string host = {};  // of the host file, that is to blame; empty: none, or not known
    std::optional<ErrorCode> code = {};  // of the failure that ranks recorded
    int system_error = 0;                // errno of that failure; 0: none
  };
  std::optional<End> end;  // absent: running, or its supervisor died
};

/// Attempts of `folder`'s history as it is now, as History::attempts(), for a process that is not the
/// supervisor: nothing is changed. Empty where there is no history. Throws as History does.
std::vector<Attempt> read_attempts(const std::filesystem::path& folder);

/// `folder`/supervisor.jsonl.
class History {
 public:
  /// Reads what is there: of a line that a dying supervisor left unfinished nothing. Throws
  /// Error(kInvalidInput) naming file and line of any other that is damaged.
  explicit History(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  /// Attempts since the last time that a supervisor came to an end of its own, oldest first.
  const std::vector<Attempt>& attempts() const { return attempts_; }
  int next_number() const { return next_number_; }

  // Each line is synced before the call returns. A line that a full or failing disk does not take is kept,
  // and written before the next one. Otherwise they throw Error(kRuntime) where it cannot be written.
  void begin(const Attempt& attempt);
  // Of the last attempt:
  void set_process(const std::string& process);
  void end(const Attempt::End& end);
  void note(const std::string& event, const std::string& what);
  /// "done", "stopped" or "gave_up": attempts() counts anew for the next supervisor.
  void close(const std::string& outcome, const std::string& what);

  /// Writes the lines that were kept. Throws Error(kRuntime) while the disk does not take them.
  void flush();

  /// A line an attempt: "attempt 2: 4 ranks from step 6, failed in step 9 after 3.1 s, exit code 137: ...".
  std::string to_text() const;

 private:
  void append(const std::string& line);

  std::filesystem::path path_;
  std::string unwritten_;  // whole lines
  std::vector<Attempt> attempts_;
  int next_number_ = 1;
};

}  // namespace trireme
