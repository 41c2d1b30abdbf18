// The hosts that a supervised job may run on: which there are, which answer, which were to blame, which are
// spares.
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
    std::filesystem::path file;  // mpirun's host file, read again whenever it is asked for
    int num_spares = 0;
    int min_slots = 1;
    HostProbe::Options probe;
    std::function<void()> while_waiting;  // called every few milliseconds
  };
  enum class Strictness : std::uint8_t {
    kRefuse,  // a host that cannot be used is bad input
    kLeaveOut,
  };

  explicit HostPool(Options options);

  /// Asks all hosts of the file. Throws Error(kInvalidInput) where no host is beside the spares, and, to
  /// refuse, where hosts cannot be reached or have other bits: it names each of them with the reason.
  void examine(Strictness strictness);
  HostChoice choose(const std::vector<Attempt>& attempts) const;
  int num_hosts() const;
  bool is_missing(const std::string& name) const;
  /// Not to be used before it has answered again.
  void lose(const std::string& name, const std::string& reason);
  /// A line for each that cannot be used, with its reason: "\n  b: it does not answer"; or empty.
  std::string describe_missing() const;

  /// While a job runs: asks hosts that could not be used, and those that are new in the file, again every few
  /// seconds. Does not wait.
  void look_again();
  /// Of the file, whose host calls itself so, see culprit_host.h.
  std::multimap<std::string, std::string> names() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<std::string> missing(const std::vector<Host>& hosts) const;
  void take_answers(const HostProbe& probe);
  /// Options of a probe of hosts of the file.
  HostProbe::Options probe_options(const std::vector<Host>& hosts) const;
  void compare_bits();

  Options options_;
  std::map<std::string, HostAnswer> answers_;  // by name
  // Of a host that could not be used; twice as long each time, as it may be slow.
  static constexpr std::chrono::seconds kPatience{5};
  /// Of look_again(): one that is silent holds no other up.
  struct Question {
    std::unique_ptr<HostProbe> probe;  // null: to be asked at `when`
    Clock::time_point when;            // else its end
    std::chrono::seconds patience = kPatience;
  };
  std::map<std::string, Question> questions_;  // by name
};

}  // namespace trireme
