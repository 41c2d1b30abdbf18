#include "launcher/observe/connection_limits.h"

namespace trireme {

std::vector<int> ConnectionLimits::older_than(Time now, std::chrono::milliseconds silent,
                                              std::chrono::milliseconds reading) const {
  std::vector<int> found;
  for (const auto& [fd, connection] : open_) {
    if (now - connection.since > (connection.has_asked ? reading : silent)) found.push_back(fd);
  }
  return found;
}

std::vector<int> ConnectionLimits::overdue(Time now) const {
  if (!is_crowded()) return older_than(now, kSilent, max_time_);
  std::vector<int> found = older_than(now, kCrowdedSilent, max_time_);
  return found.empty() ? older_than(now, kCrowdedSilent, kCrowdedReading) : found;
}

}  // namespace trireme
