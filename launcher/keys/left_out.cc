#include "launcher/keys/left_out.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "launcher/config/field_keys.h"
#include "runtime/base/log.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

constexpr int kMaxNamed = 20;  // per message

}  // namespace

void LeftOut::gather(Communicator& comm, const std::vector<const Dataset*>& datasets) {
  std::string mine;  // names that no rank has reported before; texts are exchanged only if there are any
  for (const Dataset* dataset : datasets) {
    if (dataset == nullptr) continue;
    for (const std::string& reason : dataset->left_out()) {
      if (!reasons_.contains(terminal_line(reason))) mine += terminal_line(reason) + "\n";
    }
  }
  if (std::ranges::max(comm.all_gather_value(mine.size())) == 0) return;
  int num_new = 0;
  for (const std::string& text : comm.all_gather_strings(mine)) {
    std::istringstream lines(text);
    for (std::string reason; std::getline(lines, reason);) {
      if (!reasons_.insert(reason).second || comm.rank() != 0) continue;
      if (++num_new <= kMaxNamed) log_warning("left out: " + with_keys(reason));
    }
  }
  if (num_new > kMaxNamed) log_warning(fmt::format("left out: {} more", num_new - kMaxNamed));
}

}  // namespace trireme
