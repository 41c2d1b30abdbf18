// Details of `trireme plan`: memory and traffic in bytes, and the actions of every rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/plan_report.h"
#include "runtime/base/allocator.h"

namespace trireme {

/// All categories except workspaces, which are only measured.
std::vector<MemoryCategory> predicted_categories();

/// Bytes sent, by kind of action, and by kind of call; kinds that send nothing are left out.
std::map<std::string, std::int64_t> sent_by_action(const StepPrediction& prediction);
std::map<std::string, std::int64_t> sent_by_call(const StepPrediction& prediction);
/// Bytes sent by mesh axis; "world" for exchanges between all ranks.
std::map<std::string, std::int64_t> sent_by_axis(const StepPrediction& prediction);

/// checkpoint.partner: extra bytes in each host's memory, if all hosts are alike.
struct PartnerMemory {
  std::int64_t kept = 0, while_copying = 0, while_restoring = 0;
};
/// Null if the job makes no copies.
std::optional<PartnerMemory> partner_memory(const PlanReport& report);

/// `trireme plan --memory`: bytes of each category, at the peak and at the category's own peak, and sent
/// bytes by source. For one rank, or for all ranks, with equal ones listed once.
std::string memory_details(const PlanReport& report, std::optional<int> rank = std::nullopt);

/// `trireme plan --actions`: every action of one rank, or of all ranks, with equal plans listed once.
std::string action_details(const PlanReport& report, std::optional<int> rank = std::nullopt);

}  // namespace trireme
