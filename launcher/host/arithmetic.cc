#include "launcher/host/arithmetic.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "launcher/host/agreement.h"
#include "launcher/host/build_info.h"
#include "launcher/host/machine.h"
#include "parallel/comm/nccl.h"
#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

constexpr const char* kCardFact = "GPU";

std::string value_of(const BitFacts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "none" : found->second;
}

/// "x86_64_v4 on ranks 0-1 (node1), x86_64_v3 on rank 2 (node2)"; empty if all ranks agree.
std::string describe_values(const std::string& name, const std::vector<BitFacts>& all,
                            const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, std::vector<int>>> values;  // in the order of their first rank
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string value = value_of(all[rank], name);
    auto same = std::ranges::find(values, value, [](const auto& one) { return one.first; });
    if (same == values.end()) same = values.insert(same, {value, {}});
    same->second.push_back(static_cast<int>(rank));
  }
  if (values.size() < 2) return "";
  std::string text;
  for (const auto& [value, ranks] : values) {
    std::vector<std::string> names;
    for (const int rank : ranks) {
      const std::string& host = hosts[static_cast<std::size_t>(rank)];
      if (std::ranges::find(names, host) == names.end()) names.push_back(host);
    }
    text += fmt::format("{}{} on rank{} {} ({}{})", text.empty() ? "" : ", ", value,
                        ranks.size() > 1 ? "s" : "", format_ranks(ranks), names[0],
                        names.size() > 1 ? fmt::format(" and {} more hosts", names.size() - 1) : "");
  }
  return text;
}

}  // namespace

BitFacts arithmetic_of(Device device) {
  BitFacts facts = {{"build", fmt::format("{}, {}, {}", build_info::kVersion, build_info::kBuildType,
                                          build_info::kCompiler)}};
  const Backend& backend = backend_for(device.type);
  if (backend.arithmetic != nullptr) facts.merge(backend.arithmetic());
  if (backend.examine_devices == nullptr) return facts;
  const DeviceReport report = backend.examine_devices();
  for (const auto& [library, version] : report.versions) facts[library] = version;
  const auto index = static_cast<std::size_t>(device.index);
  if (index < report.devices.size()) {
    // Libraries choose algorithms by the GPU's model and number of multiprocessors.
    const DeviceReport::Card& card = report.devices[index];
    facts[kCardFact] =
        fmt::format("{}, {}, {} multiprocessors", card.name, card.architecture, card.num_multiprocessors);
  }
  if (const std::string nccl = nccl_version(); !nccl.empty()) facts["NCCL"] = nccl;
  return facts;
}

std::string describe_different_ranks(const std::vector<BitFacts>& all,
                                     const std::vector<std::string>& hosts) {
  BitFacts names;  // union over all ranks
  for (const BitFacts& one : all) names.insert(one.begin(), one.end());
  std::string text;
  bool instructions = false, cards = false, others = false;
  for (const auto& [name, value] : names) {
    const std::string values = describe_values(name, all, hosts);
    if (values.empty()) continue;
    text += fmt::format("\n  {}: {}", name, values);
    const bool is_cards = name == kCardFact;
    const bool is_instructions = name.find("instruction set") != std::string::npos;
    // The CPU vendor matters only with the newest instruction sets.
    const bool goes_with_them = instructions && values.find("none on") != std::string::npos;
    instructions = instructions || is_instructions;
    cards = cards || is_cards;
    others = others || (!is_instructions && !is_cards && !goes_with_them);
  }
  if (text.empty()) return "";
  text = "the ranks' results would differ in their last bits:" + text;
  if (instructions) {
    text +=
        "\nlimit all ranks to the smallest instruction set above, such as `mpirun -x "
        "ONEDNN_MAX_CPU_ISA=AVX2`: oneDNN and Trireme's native kernels obey this variable";
  }
  if (cards) {
    text +=
        "\ntrain on GPUs of one model: libraries choose their algorithms by model and number of "
        "multiprocessors (a part of a GPU, MIG, counts as another model)";
  }
  if (others) text += "\nuse machines with the same build, libraries and kind of processor";
  return text;
}

void check_same_arithmetic(Communicator& comm, const BitFacts& mine) {
  if (comm.size() == 1) return;
  const auto texts = comm.all_gather_strings(nlohmann::json{{"host", host_name()}, {"facts", mine}}.dump());
  std::vector<BitFacts> all;
  std::vector<std::string> hosts;
  for (const std::string& text : texts) {
    const auto json = nlohmann::json::parse(text);
    all.push_back(json.at("facts").get<BitFacts>());
    hosts.push_back(json.at("host").get<std::string>());
  }
  const std::string difference = describe_different_ranks(all, hosts);
  if (!difference.empty()) throw AgreedError(ErrorCode::kInvalidInput, split_lines(difference));
}

std::vector<std::string> describe_changes(const BitFacts& before, const BitFacts& now) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : before) {
    const auto found = now.find(name);
    if (found == now.end() || found->second == value) continue;
    changes.push_back(fmt::format("{} ({}, now {})", name, value, found->second));
  }
  return changes;
}

}  // namespace trireme
