#include "launcher/host/name_lookup.h"

#include <fmt/core.h>
#include <netdb.h>

#include <chrono>

namespace trireme {

NameLookup look_up_name(const std::string& name) {
  NameLookup lookup{.name = name};
  const auto start = std::chrono::steady_clock::now();
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
  lookup.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (error != 0) lookup.problem = gai_strerror(error);
  if (found != nullptr) freeaddrinfo(found);
  return lookup;
}

std::string describe_localhost(const NameLookup& lookup) {
  constexpr double kSlowSeconds = 0.1;
  const bool is_slow = lookup.seconds >= kSlowSeconds;
  const std::string time =
      is_slow ? fmt::format("{:.1f} s", lookup.seconds) : fmt::format("{:.1f} ms", lookup.seconds * 1e3);
  if (lookup.problem.empty() && !is_slow) return "found in " + time;
  return fmt::format(
      "{} after {}: mpirun looks it up 20 times at each start; add the line \"127.0.0.1 localhost\" to "
      "/etc/hosts, or set HWLOC_COMPONENTS=-gl",
      lookup.problem.empty() ? "found" : "not found (" + lookup.problem + ")", time);
}

}  // namespace trireme
