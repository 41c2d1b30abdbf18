#include "launcher/host/agreement.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/host/error_report.h"
#include "launcher/records/run_record.h"
#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

std::optional<Error> failure_of(const std::function<void()>& stage) {
  try {
    stage();
    return std::nullopt;
  } catch (const std::exception& failure) {
    return as_error(failure);
  }
}

/// Collective. Returns the facts of rank `first`'s error on every rank.
ErrorFacts facts_of_first(Communicator& comm, const std::optional<Error>& mine, int first,
                          std::ptrdiff_t num_failures) {
  const Error none(ErrorCode::kRuntime, "");
  const auto record = parse_record(text_of_rank(
      comm, first, to_json(record_of(RunRecord::Event::kFailed, mine.value_or(none).saying("")))));
  ErrorFacts facts = record ? record->facts : ErrorFacts{};
  if (num_failures == 1 && comm.size() > 1 && facts.rank < 0) facts.rank = first;
  return facts;
}

}  // namespace

void run_stage(Communicator& comm, const std::function<void()>& stage) {
  const std::optional<Error> mine = failure_of(stage);
  const auto has_failed = [](const auto& code) { return code.has_value(); };
  const auto codes = comm.all_gather_value(mine ? std::optional(mine->code()) : std::nullopt);
  const auto first = std::ranges::find_if(codes, has_failed);
  if (first == codes.end()) return;  // messages are exchanged only after a failure
  const std::vector<std::string> messages = comm.all_gather_strings(mine ? shown_message(*mine) : "");
  ErrorFacts facts = facts_of_first(comm, mine, static_cast<int>(first - codes.begin()),
                                    std::ranges::count_if(codes, has_failed));
  std::vector<std::pair<std::string, std::vector<int>>> failures;  // message, ranks
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (!codes[static_cast<std::size_t>(rank)]) continue;
    const std::string& message = messages[static_cast<std::size_t>(rank)];
    const auto same = std::ranges::find(failures, message, [](const auto& failure) { return failure.first; });
    if (same != failures.end()) {
      same->second.push_back(rank);
    } else {
      failures.push_back({message, {rank}});
    }
  }
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
  throw AgreedError(LinesError(**first, split_lines(text)).about(std::move(facts)));
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
      split_lines(fmt::format(
          "the data differs between machines: rank {} reads\n{}but rank 0 reads\n{}copy the same files to "
          "every machine{}",
          others[0], all[static_cast<std::size_t>(others[0])], all[0],
          others.size() > 1 ? fmt::format(" (ranks {} have other files, too)", format_ranks(others)) : "")));
}

bool any_rank(Communicator& comm, bool mine) {
  if (comm.size() == 1) return mine;
  return std::ranges::max(comm.all_gather_value(std::uint8_t{mine})) != 0;
}

std::string text_of_rank(Communicator& comm, int root, const std::string& mine) {
  return comm.all_gather_strings(comm.rank() == root ? mine : "")[static_cast<std::size_t>(root)];
}

}  // namespace trireme
