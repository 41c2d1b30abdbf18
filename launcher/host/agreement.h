// Collective decisions: run_stage() for work that may fail on any rank, any_rank() for flags.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/base/lines_error.h"

namespace trireme {

/// An error that all ranks throw at the same point. One rank can report it and all can exit cleanly.
class AgreedError : public Error {
 public:
  using Error::Error;
  AgreedError(ErrorCode code, const std::vector<std::string>& lines,
              std::source_location where = std::source_location::current())
      : Error(LinesError(code, lines, where)) {}
  explicit AgreedError(const Error& error) : Error(error) {}
  // Deleted, because it would throw an Error: use AgreedError(Error(...).about(...)).
  void about(ErrorFacts) const = delete;
};

/// Collective. Runs `stage` on every rank. If it throws on any rank, every rank throws an AgreedError with
/// all messages, duplicates removed. Code and facts come from the lowest failing rank; the facts name that
/// rank if it is the only one.
void run_stage(Communicator& comm, const std::function<void()>& stage);

/// Collective. Throws an AgreedError that names the ranks whose data differs from rank 0's. Ranks that did
/// not read all data pass "".
void check_same_data(Communicator& comm, const std::string& fingerprint);

/// Collective. Returns true on every rank if `mine` is true on any.
bool any_rank(Communicator& comm, bool mine);

/// Collective. Returns `root`'s text on every rank.
std::string text_of_rank(Communicator& comm, int root, const std::string& mine);

}  // namespace trireme
