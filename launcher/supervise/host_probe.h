// Asks hosts, all at once, whether mpirun starts this program there and what it says of itself.
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
  std::string problem;  // the reason why there are none; empty: there are
};

class HostProbe {
 public:
  struct Options {
    std::vector<std::string> mpirun;   // with its options
    std::vector<std::string> program;  // that prints to_json(HostFacts)
    std::filesystem::path folder;      // for what it prints; exists
  };

  /// Starts one mpirun for each of `hosts`, names of a host file, which no other probe asks meanwhile.
  HostProbe(const Options& options, std::vector<std::string> hosts);
  /// Ends those that have not ended.
  ~HostProbe();
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  const std::vector<std::string>& hosts() const { return hosts_; }
  /// Whether all have ended.
  bool poll();
  /// Of hosts()[index], as far as it is known now.
  HostAnswer answer(std::size_t index) const;

 private:
  std::vector<std::string> hosts_, tags_;
  std::vector<std::filesystem::path> logs_;
  std::vector<std::unique_ptr<JobProcess>> processes_;
};

/// What mpirun, or the program that it starts others with, says of a failure: its first line of words.
std::string first_words(const std::filesystem::path& log);

}  // namespace trireme
