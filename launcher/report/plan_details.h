// Details of `trireme plan`: memory and traffic to the byte, and the actions of every rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/plan_report.h"
#include "runtime/base/allocator.h"

namespace trireme {

/// All but workspaces, which are measured only.
std::vector<MemoryCategory> predicted_categories();

/// Bytes sent by actions of each kind, and by calls of each kind, without those that send nothing.
std::map<std::string, std::int64_t> sent_by_action(const StepPrediction& prediction);
std::map<std::string, std::int64_t> sent_by_call(const StepPrediction& prediction);
/// Likewise by axis of the mesh; "world" for what all ranks exchange.
std::map<std::string, std::int64_t> sent_by_axis(const StepPrediction& prediction);

/// checkpoint.partner: bytes in the memory of each host beside its ranks' own, if hosts are alike.
struct PartnerMemory {
  std::int64_t kept = 0, while_copying = 0, while_restoring = 0;
};
/// Nothing where the job copies nothing.
std::optional<PartnerMemory> partner_memory(const PlanReport& report);

/// `trireme plan --memory`: every category's bytes, at the peak and at its own, and what is sent by what; of
/// all ranks, equal ones once, or of one.
std::string memory_details(const PlanReport& report, std::optional<int> rank = std::nullopt);

/// `trireme plan --actions`: every action of all ranks, equal plans once, or of one.
std::string action_details(const PlanReport& report, std::optional<int> rank = std::nullopt);

}  // namespace trireme
