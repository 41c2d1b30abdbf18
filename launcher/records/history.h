// The supervisor's history: JSON lines in the output folder, for people and for the next supervisor if this
// one dies.
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
  int number = 1;  // counted over the folder's whole history
  int num_ranks = 1;
  std::vector<std::string> hosts = {};  // names in the host file; empty: no host file
  std::int64_t began_s = 0;     // Unix time, for an attempt read from the file; 0: begun by this process
  std::int64_t first_step = 1;  // the first step to compute: one after the newest whole checkpoint
  std::string process;          // mpirun's mark (runtime/checkpoint/writer_mark.h); empty: not started yet
  std::string tag;              // identifies its processes: see job_process.h

  struct End {
    int exit_code = 0;      // as in a shell: 128 + signal number if a signal ended mpirun
    std::int64_t step = 1;  // the step that was not finished
    std::string verdict;    // for people: the cause, from the ranks' records or mpirun's output; may be empty
    double seconds = 0;     // since the attempt's start
    std::string host = {};  // the host to blame, as in the host file; empty: none or unknown
    std::optional<ErrorCode> code = {};  // of the recorded failure
    int system_error = 0;                // errno of the recorded failure; 0: none
  };
  std::optional<End> end;  // null: running, or its supervisor died
};

/// Attempts in `folder`'s history, as History::attempts(). Read-only, for processes other than the
/// supervisor. Empty if there is no history. Throws as History does.
std::vector<Attempt> read_attempts(const std::filesystem::path& folder);

/// `folder`/supervisor.jsonl.
class History {
 public:
  /// Reads the existing history. Ignores an unfinished last line, which a dying supervisor leaves. Throws
  /// Error(kInvalidInput) with file and line for any other damaged line.
  explicit History(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  /// Attempts since a supervisor last closed the history, oldest first.
  const std::vector<Attempt>& attempts() const { return attempts_; }
  int next_number() const { return next_number_; }

  // Each line is synced before the call returns. If the disk is full or fails, the line is kept and written
  // before the next one. Other failures throw Error(kRuntime).
  void begin(const Attempt& attempt);
  // For the last attempt:
  void set_process(const std::string& process);
  void end(const Attempt::End& end);
  void note(const std::string& event, const std::string& what);
  /// `outcome`: "done", "stopped" or "gave_up". The next supervisor starts with no attempts.
  void close(const std::string& outcome, const std::string& what);

  /// Writes the kept lines. Throws Error(kRuntime) while the disk refuses them.
  void flush();

  /// One line per attempt: "attempt 2: 4 ranks from step 6, failed in step 9 after 3.1 s, exit code 137:
  /// ...".
  std::string to_text() const;

 private:
  void append(const std::string& line);

  std::filesystem::path path_;
  std::string unwritten_;  // whole lines
  std::vector<Attempt> attempts_;
  int next_number_ = 1;
};

}  // namespace trireme
