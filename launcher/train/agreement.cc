#include "launcher/train/agreement.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/path_error.h"
#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

struct StageOutcome {
  bool failed = false;
  ErrorCode code = ErrorCode::kRuntime;
  std::string message;
};

StageOutcome attempt(const std::function<void()>& stage) {
  try {
    stage();
    return {};
  } catch (const Error& error) {
    return {true, error.code(), error.what()};
  } catch (const std::filesystem::filesystem_error& failure) {
    const Error error = as_error(failure);
    return {true, error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {true, ErrorCode::kOutOfMemory, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {true, ErrorCode::kRuntime, error.what()};
  }
}

// On the wire: empty for success, else a digit for the code, then the message.
std::string pack(const StageOutcome& outcome) {
  if (!outcome.failed) return "";
  return static_cast<char>('0' + static_cast<int>(outcome.code)) + outcome.message;
}

}  // namespace

void run_stage(Communicator& comm, const std::function<void()>& stage) {
  const auto outcomes = comm.all_gather_strings(pack(attempt(stage)));
  std::vector<std::pair<std::string, std::vector<int>>> failures;  // message, ranks
  std::string first;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::string& outcome = outcomes[static_cast<std::size_t>(rank)];
    if (outcome.empty()) continue;
    if (first.empty()) first = outcome;
    const std::string message = outcome.substr(1);
    const auto same = std::ranges::find(failures, message, [](const auto& failure) { return failure.first; });
    if (same != failures.end()) {
      same->second.push_back(rank);
    } else {
      failures.push_back({message, {rank}});
    }
  }
  if (failures.empty()) return;
  std::string text;
  for (const auto& [message, ranks] : failures) {
    const bool everybody = static_cast<int>(ranks.size()) == comm.size();
    if (!text.empty()) text += '\n';
    if (everybody) {
      text += message;
    } else if (ranks.size() == 1) {
      text += naming_rank(ranks[0], message);
    } else {
      text += fmt::format("ranks {}: {}", format_ranks(ranks), message);
    }
  }
  throw AgreedError(static_cast<ErrorCode>(first[0] - '0'), text);
}

void check_same_config(Communicator& comm, const std::string& resolved) {
  const std::string difference = describe_difference(comm.all_gather_strings(resolved));
  if (difference.empty()) return;
  throw AgreedError(
      ErrorCode::kInvalidInput,
      "the configuration differs between ranks; give all of them the same job file and --set:\n" +
          difference);
}

void check_same_data(Communicator& comm, const std::string& fingerprint) {
  if (comm.size() == 1) return;
  const auto all = comm.all_gather_strings(fingerprint);
  std::vector<int> others;
  for (int rank = 1; rank < comm.size(); ++rank) {
    const std::string& theirs = all[static_cast<std::size_t>(rank)];
    if (!theirs.empty() && theirs != all[0]) others.push_back(rank);
  }
  if (others.empty()) return;
  throw AgreedError(
      ErrorCode::kInvalidInput,
      fmt::format(
          "the data differs between machines: rank {} reads\n{}and rank 0 reads\n{}give every "
          "machine the same files{}",
          others[0], all[static_cast<std::size_t>(others[0])], all[0],
          others.size() > 1 ? fmt::format(" (ranks {} have others, too)", format_ranks(others)) : ""));
}

bool any_rank(Communicator& comm, bool mine) {
  if (comm.size() == 1) return mine;
  const auto answers = comm.all_gather_strings(mine ? "y" : "n");
  return std::ranges::find(answers, "y") != answers.end();
}

std::string text_of_rank(Communicator& comm, int root, const std::string& mine) {
  return comm.all_gather_strings(comm.rank() == root ? mine : "")[static_cast<std::size_t>(root)];
}

}  // namespace trireme
