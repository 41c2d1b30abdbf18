// Which connections of a server are closed: how many there may be, and how long each may take.
//
// [Note: slow clients] A client that has asked for nothing yet has kSilent, one that takes its answer
// max_time. Where as many connections are open as may be, those are closed at once that have said nothing for
// kCrowdedSilent, or, where there is none, that take their answer for longer than kCrowdedReading. So
// thousands that say nothing or read nothing are let in and out again in seconds, and whoever asks meanwhile
// is answered.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

namespace trireme {

class ConnectionLimits {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kSilent{5000}, kCrowdedSilent{50}, kCrowdedReading{1000};

  ConnectionLimits(std::size_t most, std::chrono::milliseconds max_time) : most_(most), max_time_(max_time) {}

  void began(int fd, Time now) { open_[fd] = {.since = now, .has_asked = false}; }
  /// Its request is whole.
  void asked(int fd, Time now) { open_[fd] = {.since = now, .has_asked = true}; }
  /// It is closed, or goes on without limits.
  void ended(int fd) { open_.erase(fd); }

  std::size_t count() const { return open_.size(); }
  bool is_crowded() const { return open_.size() >= most_; }
  /// Those to be closed. They count as open until they have ended.
  std::vector<int> overdue(Time now) const;

 private:
  struct Connection {
    Time since;  // it was opened, or had asked
    bool has_asked = false;
  };
  std::vector<int> older_than(Time now, std::chrono::milliseconds silent,
                              std::chrono::milliseconds reading) const;

  std::size_t most_;
  std::chrono::milliseconds max_time_;
  std::map<int, Connection> open_;  // by socket
};

}  // namespace trireme
