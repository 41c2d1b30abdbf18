#include "launcher/config/left_out.h"

#include <fmt/core.h>

#include <sstream>

#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr int kMaxNamed = 20;  // at a time

}  // namespace

void LeftOut::gather(Communicator& comm, const std::vector<const Dataset*>& datasets) {
  std::string mine;
  for (const Dataset* dataset : datasets) {
    if (dataset == nullptr) continue;
    for (const std::string& reason : dataset->left_out()) mine += reason + "\n";
  }
  int num_new = 0;
  for (const std::string& text : comm.all_gather_strings(mine)) {
    std::istringstream lines(text);
    for (std::string reason; std::getline(lines, reason);) {
      if (!reasons_.insert(reason).second || comm.rank() != 0) continue;
      if (++num_new <= kMaxNamed) log_warning("left out: " + reason);
    }
  }
  if (num_new > kMaxNamed) log_warning(fmt::format("left out: {} more", num_new - kMaxNamed));
}

}  // namespace trireme
