#include "launcher/report/plan_timeline.h"

#include <fmt/core.h>

#include "launcher/job/accumulation.h"
#include "launcher/job/build.h"
#include "launcher/records/output_folder.h"
#include "launcher/render/timeline_svg.h"
#include "launcher/render/timeline_trace.h"
#include "parallel/foresee/plan_simulate.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string title_of(const PlanReport& report) {
  const JobConfig& job = report.config;
  const std::int64_t stages = job.parallel.layout.pipeline;
  return fmt::format(
      "{}{} rank(s), {} micro-batch(es)",
      stages > 1 ? fmt::format("{}: {} stages on ", name(job.parallel.layout.schedule), stages) : "",
      report.num_ranks, num_accumulated(batch_layout(job, report.num_ranks)));
}

}  // namespace

void check_timeline_name(const std::filesystem::path& file) {
  TRIREME_CHECK(file.extension() == ".svg" || file.extension() == ".json",
                "--timeline {}: a picture is called something.svg, a trace for Perfetto something.json",
                file.string());
}

Timeline plan_timeline(const PlanReport& report, const BlockProfile& profile, double send_ms) {
  return simulate_plan(report.plan, {.blocks = profile.blocks, .send_ms = send_ms});
}

std::string describe_source(const BlockProfile& profile) {
  return fmt::format("block times on {}, {} thread(s), {}, micro-batches of {}", profile.device,
                     profile.threads, profile.precision, profile.micro_batch);
}

void write_timeline(const std::filesystem::path& file, const Timeline& timeline, const PlanReport& report,
                    const std::string& source) {
  check_timeline_name(file);
  const std::string note = "Simulated from " + source;
  write_text_file(file, file.extension() == ".svg"
                            ? to_svg(merge_neighbours(timeline), title_of(report), note)
                            : to_chrome_trace(timeline));
}

}  // namespace trireme
