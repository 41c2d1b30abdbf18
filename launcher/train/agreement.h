// Collective decisions of ranks: a collective that any rank may fail, and a question any of them may say
// yes to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/base/lines_error.h"

namespace trireme {

/// An error that all ranks throw at the same point, so that one of them can report it and all can end in good
/// order.
class AgreedError : public Error {
 public:
  using Error::Error;
  AgreedError(ErrorCode code, const std::vector<std::string>& lines,
              std::source_location where = std::source_location::current())
      : Error(LinesError(code, lines, where)) {}
  explicit AgreedError(const Error& error) : Error(error) {}
  void about(ErrorFacts) const =
      delete;  // it would be thrown as an Error: AgreedError(Error(...).about(...))
};

/// Collective. Runs `stage` on every rank. When any rank has thrown, every rank throws an AgreedError with
/// all messages, equal ones once; its code and facts are those of the lowest failing rank, which they name
/// where no other rank failed.
void run_stage(Communicator& comm, const std::function<void()>& stage);

/// Collective. Throws an AgreedError that names rank and key when the texts (see describe_difference) differ.
void check_same_config(Communicator& comm, const std::string& resolved);

/// Collective. Throws an AgreedError that names the ranks whose data is not rank 0's. Ranks that did not read
/// it whole give "".
void check_same_data(Communicator& comm, const std::string& fingerprint);

/// Collective. True on every rank when it is true on any.
bool any_rank(Communicator& comm, bool mine);

/// Collective. The text of `root`, on every rank.
std::string text_of_rank(Communicator& comm, int root, const std::string& mine);

}  // namespace trireme
