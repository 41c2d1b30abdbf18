#include "launcher/train/state_verification.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "launcher/host/machine.h"
#include "launcher/train/agreement.h"

namespace trireme {
namespace {

std::string name_ranks(const Corruption& found, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const int rank : found.ranks)
    names.push_back(fmt::format("rank {} on {}", rank, hosts[static_cast<std::size_t>(rank)]));
  return fmt::format("{}", fmt::join(names, found.is_certain ? " and " : " or "));
}

}  // namespace

StateVerification::StateVerification(const Engine& engine, std::int64_t every)
    : engine_(engine), every_(every), verified_step_(engine.steps_done()) {}

StateCheck StateVerification::look(std::int64_t step) const {
  const StateVerifier* verifier = engine_.verifier();
  if (verifier == nullptr) return {};
  return is_due(step) ? merge(verifier->of_last_step(), verifier->now()) : verifier->of_last_step();
}

void StateVerification::judge(std::int64_t step, std::span<const StateCheck> checks) {
  const auto found = find_corruption(engine_.groups().mesh, checks);
  if (!found) {
    if (is_due(step)) verified_step_ = step;
    return;
  }
  const auto hosts = engine_.communicator().all_gather_strings(host_name());
  const std::string where =
      found->group >= 0
          ? fmt::format(", in '{}'", engine_.layout().groups[static_cast<std::size_t>(found->group)].name)
          : "";
  throw AgreedError(
      ErrorCode::kRuntime,
      fmt::format("silent corruption: after step {} the state of {} is not what the updates made of it{}; "
                  "after step {} it was. A bit flipped, in memory, a processor or on the way between ranks: "
                  "look at the host. No checkpoint has it: go on from the newest one",
                  step, name_ranks(*found, hosts), where, verified_step_));
}

void StateVerification::verify_now() {
  const StateVerifier* verifier = engine_.verifier();
  const std::int64_t step = engine_.steps_done();
  if (verifier == nullptr || verified_step_ == step) return;
  judge(step, engine_.communicator().all_gather_value(merge(verifier->of_last_step(), verifier->now())));
  verified_step_ = step;
}

}  // namespace trireme
