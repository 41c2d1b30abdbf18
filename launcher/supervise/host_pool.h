// The hosts available to a supervised job: which exist, which answer, which have strikes, which are spares.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervise/host_choice.h"
#include "launcher/supervise/host_probe.h"

namespace trireme {

class HostPool {
 public:
  struct Options {
    std::filesystem::path file;  // mpirun's host file; each use reads it again
    int num_spares = 0;
    int min_slots = 1;
    HostProbe::Options probe;
    std::function<void()> while_waiting;  // called every few milliseconds
  };
  enum class Strictness : std::uint8_t {
    kRefuse,  // an unusable host is an input error
    kLeaveOut,
  };

  explicit HostPool(Options options);

  /// Probes all hosts of the file. Throws Error(kInvalidInput) if only spares are left. With kRefuse it also
  /// throws, naming each host and the reason, if hosts are unreachable or compute other bits.
  void examine(Strictness strictness);
  HostChoice choose(const std::vector<Attempt>& attempts) const;
  int num_hosts() const;
  bool is_missing(const std::string& name) const;
  /// Marks a host as unusable until it answers a probe again.
  void lose(const std::string& name, const std::string& reason);
  /// One line per unusable host with its reason: "
  /// b: it does not answer"; empty if there is none.
  std::string describe_missing() const;

  /// Probes unusable hosts, and hosts that are new in the file, again every few seconds while a job runs.
  /// Does not block.
  void look_again();
  /// Maps a host's own name to its name in the file, see culprit_host.h.
  std::multimap<std::string, std::string> names() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<std::string> missing(const std::vector<Host>& hosts) const;
  void take_answers(const HostProbe& probe);
  /// Options for a probe of hosts of the file.
  HostProbe::Options probe_options(const std::vector<Host>& hosts) const;
  void compare_bits();

  Options options_;
  std::map<std::string, HostAnswer> answers_;  // by name in the file
  // For the first repeated probe of an unusable host; doubled after each failure, as the host may be slow.
  static constexpr std::chrono::seconds kPatience{5};
  /// A probe of look_again(): one per host, so a silent host delays no other.
  struct Question {
    std::unique_ptr<HostProbe> probe;  // null: starts at `when`
    Clock::time_point when;            // start or deadline of the probe
    std::chrono::seconds patience = kPatience;
  };
  std::map<std::string, Question> questions_;  // by name
};

}  // namespace trireme
