// The status of every rank of this machine, in memory that the others read without its help: also when it is
// stopped, hangs, or is gone.
//
// A line a rank. Each rank writes its own, before an action and around every wait: a few stores, no system
// call. Watchdogs read all of them (parallel/watch/watchdog.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A rank's line, as read.
struct RankReading {
  int rank = -1;
  int process = 0;                      // 0: nobody has entered the line yet
  std::uint64_t process_namespace = 0;  // process ids of another one mean nothing here
  bool busy = false;                    // in what `text` says; else that was its last action
  bool waits = false;                   // inside of a wait for other ranks
  int waits_for = -1;                   // the rank that it waits for, where it is one
  bool finished = false;                // it has nothing left to do but to exit
  bool ended = false;                   // it leaves on purpose, or has said why
  double for_s = 0;                     // since it began to do that, or to wait
  std::string text;

  /// `process` where this process may watch and signal it; 0: nobody has entered, or a rank of another
  /// namespace (a container of its own), whose id may here be that of a stranger.
  int visible_process() const;
};

class RankBoard {
 public:
  /// Longer texts are cut.
  static constexpr std::size_t kTextBytes = 240;

  /// Bytes of memory that a board of so many lines needs.
  static std::size_t bytes(int size);
  /// `memory` is zero, aligned for 64-bit numbers and used for nothing else; several processes may map it.
  RankBoard(std::shared_ptr<void> memory, int size);
  /// For ranks of this process alone.
  static std::shared_ptr<RankBoard> in_process(int size);

  int size() const { return size_; }
  /// True when every line has its rank.
  bool is_full() const;
  /// True when every rank has finished or left.
  bool all_finished() const;
  RankReading read(int slot) const;
  /// True for one caller of all: the one that says why the job ends.
  bool claim_last_word();

 private:
  friend class RankStatus;
  // Shared between processes: lock-free atomics only.
  struct Line {
    std::atomic<std::int32_t> rank, process, busy, waits, waits_for, finished, ended;
    std::atomic<std::uint64_t> process_namespace;
    std::atomic<std::int64_t> since_ns;  // of CLOCK_MONOTONIC, the same for all processes
    std::atomic<std::uint32_t> version;  // odd while the text is written
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

/// This rank's line, which it writes from the thread that it computes on; end() may come from any thread.
class RankStatus {
 public:
  /// Enters process and rank into line `slot`.
  RankStatus(std::shared_ptr<RankBoard> board, int slot, int rank);

  /// Says what the rank does from now on: "step 17, action 5 (Forward unit 3 micro-batch 1)".
  void begin(std::string_view text);
  /// Nothing that anybody watches. The text stays, as the last that is known.
  void end_action();
  /// The same for what nests: after leave() the rank is again in what it was in before enter().
  void enter(std::string text);
  void leave();
  /// Waits may nest.
  void begin_wait();
  void end_wait();
  /// Says which rank the waits from now on are for; -1: no single one.
  void wait_for(int rank);
  /// Nothing is left to do but to exit.
  void finish() noexcept;
  /// The rank leaves, on purpose or with a message of its own: from now on its end is no news.
  void end() noexcept;

  /// True for the first who asks: one watchdog for a rank is enough.
  bool claim_watch() { return !watched_.exchange(true); }
  void release_watch() { watched_ = false; }

  RankBoard& board() const { return *board_; }
  int slot() const { return slot_; }

 private:
  void touch();

  std::shared_ptr<RankBoard> board_;
  int slot_;
  RankBoard::Line& line_;
  int depth_ = 0;                    // of waits
  std::vector<std::string> inside_;  // what was entered, the innermost last
  std::atomic<bool> watched_ = false;
};

}  // namespace trireme
