#include "launcher/state/state_verification.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "launcher/host/agreement.h"
#include "launcher/host/machine.h"
#include "parallel/comm/message_sums.h"

namespace trireme {
namespace {

std::string name_ranks(const Corruption& found, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const int rank : found.ranks)
    names.push_back(fmt::format("rank {} on {}", rank, hosts[static_cast<std::size_t>(rank)]));
  return fmt::format("{}", fmt::join(names, found.is_certain ? " and " : " or "));
}

[[noreturn]] void throw_changed_messages(const Engine& engine, std::int64_t step) {
  Communicator& world = engine.communicator();
  const auto hosts = world.all_gather_strings(host_name());
  const auto name = [&](int rank) {
    return fmt::format("rank {} on {}", rank, hosts[static_cast<std::size_t>(rank)]);
  };
  const auto broken = message_sums(world)->broken_paths(world);
  std::vector<std::string> paths;
  for (const auto& [from, to] : broken) paths.push_back(fmt::format("from {} to {}", name(from), name(to)));
  const int first = broken.empty() ? -1 : broken.front().from;
  throw AgreedError(
      Error(ErrorCode::kRuntime,
            fmt::format("silent corruption: after the end of step {} messages arrived changed {}; all "
                        "earlier ones were correct. A "
                        "bit flipped on one of the two hosts or between them: check the hosts. No checkpoint "
                        "contains the change: resume from the newest one",
                        step, fmt::join(paths, " and ")))
          .about({.rank = first}));
}

}  // namespace

StateVerification::StateVerification(const Engine& engine, std::int64_t every)
    : engine_(engine),
      every_(every),
      verified_step_(engine.steps_done()),
      messages_step_(engine.steps_done()) {}

StateCheck StateVerification::look(std::int64_t step) const {
  const StateVerifier* verifier = engine_.verifier();
  if (verifier == nullptr) return {};
  StateCheck check =
      is_due(step) ? merge(verifier->of_last_step(), verifier->now()) : verifier->of_last_step();
  check.messages = verifier->messages();
  return check;
}

void StateVerification::judge(std::int64_t step, std::span<const StateCheck> checks) {
  // Report changed messages first, as they may have caused the changed state.
  std::uint64_t messages = 0;
  for (const StateCheck& check : checks) messages += check.messages;
  if (messages != 0) throw_changed_messages(engine_, messages_step_);
  messages_step_ = step;
  const auto found = find_corruption(engine_.groups().mesh, checks);
  if (!found) {
    if (is_due(step)) verified_step_ = step;
    return;
  }
  const auto hosts = engine_.communicator().all_gather_strings(host_name());
  const std::string block =
      found->group >= 0 ? engine_.layout().groups[static_cast<std::size_t>(found->group)].name : "";
  const std::string where = block.empty() ? "" : fmt::format(", in '{}'", block);
  throw AgreedError(
      Error(
          ErrorCode::kRuntime,
          fmt::format("silent corruption: after step {} the state of {} is not the result of its updates{}; "
                      "after step {} it was. A bit flipped in memory, in a processor or in transit between "
                      "ranks: check the host. No checkpoint contains the change: resume from the newest one",
                      step, name_ranks(*found, hosts), where, verified_step_))
          .about({.rank = found->ranks.front(), .block = block}));
}

void StateVerification::verify_now() {
  const StateVerifier* verifier = engine_.verifier();
  const std::int64_t step = engine_.steps_done();
  if (verifier == nullptr || verified_step_ == step) return;
  StateCheck check = merge(verifier->of_last_step(), verifier->now());
  check.messages = verifier->messages();
  judge(step, engine_.communicator().all_gather_value(check));
  verified_step_ = step;
}

}  // namespace trireme
