// Decides which connections of a server to close: limits on their number and duration.
//
// [Note: slow clients] A client has kSilent to send its request, and max_time to receive the answer. If the
// maximum number of connections is open, clients that have sent nothing for kCrowdedSilent are closed at
// once. If there are none, clients that have been receiving for longer than kCrowdedReading are closed. So
// thousands of silent or slow clients are accepted and closed within seconds, and other clients still get
// answers.
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
  /// Its request is complete.
  void asked(int fd, Time now) { open_[fd] = {.since = now, .has_asked = true}; }
  /// It was closed, or became a stream without limits.
  void ended(int fd) { open_.erase(fd); }

  std::size_t count() const { return open_.size(); }
  bool is_crowded() const { return open_.size() >= most_; }
  /// The connections to close. They count as open until ended().
  std::vector<int> overdue(Time now) const;

 private:
  struct Connection {
    Time since;  // time when it was opened, or its request was complete
    bool has_asked = false;
  };
  std::vector<int> older_than(Time now, std::chrono::milliseconds silent,
                              std::chrono::milliseconds reading) const;

  std::size_t most_;
  std::chrono::milliseconds max_time_;
  std::map<int, Connection> open_;  // by socket
};

}  // namespace trireme
