#include "launcher/supervise/disk_wait.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1000}, kLongestPause{60'000};

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// Pauses of 1, 2, 4 ... s: each is the sum of all before plus one second.
milliseconds next_pause(milliseconds waited) {
  return std::min(waited + kFirstPause, kLongestPause);
}

bool DiskWait::until_written(const std::function<void()>& write) {
  bool logged = false;
  while (true) {
    try {
      write();
      if (logged) options_.log(fmt::format("the disk takes data again, after {:.3g} s", seconds(waited_)));
      waited_ = milliseconds(0);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kRuntime) throw;
      if (waited_ >= options_.limit)
        throw Error(error.code(), "{}; waited {:.3g} s for the disk (--max-disk-minutes {:.3g})",
                    error.what(), seconds(waited_), seconds(options_.limit) / 60);
      const milliseconds pause = std::min(next_pause(waited_), options_.limit - waited_);
      if (!logged)
        options_.log(fmt::format("waiting for the disk, for up to {:.3g} minutes: {}",
                                 seconds(options_.limit) / 60, error.what()));
      logged = true;
      if (!options_.pause(pause)) return false;
      waited_ += pause;
    }
  }
}

}  // namespace trireme
