// Probes hosts in parallel: whether mpirun starts this program there, and the facts that it reports.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/host/host_facts.h"
#include "launcher/supervise/job_process.h"

namespace trireme {

struct HostAnswer {
  HostFacts facts;
  std::string problem;  // why there are no facts; empty: there are
};

class HostProbe {
 public:
  struct Options {
    std::vector<std::string> mpirun;   // with its options
    std::vector<std::string> program;  // prints to_json(HostFacts)
    std::filesystem::path folder;      // for the outputs; exists
  };

  /// Starts one mpirun for each of `hosts`, names in a host file. No other probe of these hosts may be
  /// running.
  HostProbe(const Options& options, std::vector<std::string> hosts);
  /// Kills probes that are still running.
  ~HostProbe();
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  const std::vector<std::string>& hosts() const { return hosts_; }
  /// True once all probes have ended.
  bool poll();
  /// The current answer of hosts()[index].
  HostAnswer answer(std::size_t index) const;

 private:
  std::vector<std::string> hosts_, tags_;
  std::vector<std::filesystem::path> logs_;
  std::vector<std::unique_ptr<JobProcess>> processes_;
};

/// The first line of text that mpirun, or its remote shell, printed about a failure.
std::string first_words(const std::filesystem::path& log);

}  // namespace trireme
