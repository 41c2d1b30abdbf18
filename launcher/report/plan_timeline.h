// The timeline of a plan: `trireme plan --timeline`.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/job/block_profile.h"
#include "launcher/report/plan_report.h"
#include "parallel/plan/timeline.h"

namespace trireme {

/// Throws Error(kInvalidInput) unless `file` ends in .svg or .json.
void check_timeline_name(const std::filesystem::path& file);

/// Simulates the step of all ranks with the times of `profile`; a send takes `send_ms`.
Timeline plan_timeline(const PlanReport& report, const BlockProfile& profile, double send_ms);

/// "block times on cpu, 2 thread(s), fp32, micro-batches of 4".
std::string describe_source(const BlockProfile& profile);

/// Writes an SVG image (.svg) or a trace-event file (.json), atomically. The image names the source of its
/// times.
void write_timeline(const std::filesystem::path& file, const Timeline& timeline, const PlanReport& report,
                    const std::string& source);

}  // namespace trireme
