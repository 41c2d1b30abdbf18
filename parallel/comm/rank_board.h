// The status of every rank of this machine, in shared memory. Others can read it even if the rank is stopped,
// hangs or has died.
//
// One line per rank. Each rank writes its own line before an action and around every wait: a few stores, no
// system call. Watchdogs read all lines (parallel/watch/watchdog.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A snapshot of a rank's line.
struct RankReading {
  int rank = -1;
  int process = 0;                      // 0: no process has entered the line yet
  std::uint64_t process_namespace = 0;  // namespace of `process`, which is meaningless in another one
  bool busy = false;                    // `text` is the current action; else it is the last one
  bool waits = false;                   // waiting for other ranks
  int waits_for = -1;                   // the rank that it waits for, if it is a single one
  bool finished = false;                // nothing is left to do but to exit
  bool ended = false;                   // exiting on purpose, or after reporting an error
  double for_s = 0;                     // seconds since the action or the wait began
  std::string text;

  /// `process` if this process may watch and signal it. 0 if no process has entered, or for a rank in another
  /// pid namespace (a separate container), whose id may belong to an unrelated process here.
  int visible_process() const;
};

class RankBoard {
 public:
  /// Longer texts are truncated.
  static constexpr std::size_t kTextBytes = 240;

  /// Bytes of memory for a board of `size` lines.
  static std::size_t bytes(int size);
  /// `memory` is zero-initialised, aligned for 64-bit numbers and not used otherwise; several processes may
  /// map it.
  RankBoard(std::shared_ptr<void> memory, int size);
  /// A board for the ranks of this process only.
  static std::shared_ptr<RankBoard> in_process(int size);

  int size() const { return size_; }
  /// True if every line has a rank.
  bool is_full() const;
  /// True if every rank has finished or exited.
  bool all_finished() const;
  RankReading read(int slot) const;
  /// Returns true to one caller only, which then reports why the job ends.
  bool claim_last_word();

 private:
  friend class RankStatus;
  // Shared between processes: lock-free atomics only.
  struct Line {
    std::atomic<std::int32_t> rank, process, busy, waits, waits_for, finished, ended;
    std::atomic<std::uint64_t> process_namespace;
    std::atomic<std::int64_t> since_ns;  // CLOCK_MONOTONIC, which all processes share
    std::atomic<std::uint32_t> version;  // odd while the text is being written
    std::array<std::atomic<std::uint64_t>, kTextBytes / 8> text;
  };
  struct Header {
    std::atomic<std::int64_t> last_word_taken;
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);

  Line& line(int slot) const;
  Header& header() const;

  std::shared_ptr<void> memory_;
  int size_;
};

/// Writer of this rank's line, used by its compute thread; end() may be called from any thread.
class RankStatus {
 public:
  /// Writes process and rank to line `slot`.
  RankStatus(std::shared_ptr<RankBoard> board, int slot, int rank);

  /// Sets the current action: "step 17, action 5 (Forward unit 3 micro-batch 1)".
  void begin(std::string_view text);
  /// Marks the rank as idle, without a time limit. The text stays, as the last known action.
  void end_action();
  /// Nested actions: leave() restores the action before enter().
  void enter(std::string text);
  void leave();
  /// Waits may nest.
  void begin_wait();
  void end_wait();
  /// Sets the rank that later waits are for; -1: no single one.
  void wait_for(int rank);
  /// Marks that nothing is left to do but to exit.
  void finish() noexcept;
  /// Marks that the rank exits on purpose, or has reported its error: its end is no longer reported.
  void end() noexcept;

  /// Returns true to the first caller only: a rank needs one watchdog.
  bool claim_watch() { return !watched_.exchange(true); }
  void release_watch() { watched_ = false; }

  RankBoard& board() const { return *board_; }
  int slot() const { return slot_; }

 private:
  void touch();

  std::shared_ptr<RankBoard> board_;
  int slot_;
  RankBoard::Line& line_;
  int depth_ = 0;                    // of nested waits
  std::vector<std::string> inside_;  // entered actions, the innermost last
  std::atomic<bool> watched_ = false;
};

}  // namespace trireme
