#include "launcher/host/address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::int64_t kLeastBytes = 64 * kMiB, kThreadBytes = 8 * kMiB;

}  // namespace

AddressSpace address_space() {
  AddressSpace space{.num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    space.limit_bytes = static_cast<std::int64_t>(limit.rlim_cur);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  space.used_bytes = pages * sysconf(_SC_PAGESIZE);
  return space;
}

void refuse_small_address_space(const AddressSpace& space) {
  const std::int64_t least = space.used_bytes + kLeastBytes + space.num_threads * kThreadBytes;
  TRIREME_CHECK(
      !space.limit_bytes || *space.limit_bytes >= least,
      "ulimit -v is {}: the program, its libraries and threads need {} KiB of address space; set it to "
      "more, or to unlimited",
      *space.limit_bytes / kKiB, least / kKiB);
}

}  // namespace trireme
