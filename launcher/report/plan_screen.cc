// The first screen of `trireme plan`: what a person needs before a run, at most about thirty lines of a
// hundred characters. Details are in plan_details.h.
#include <fmt/core.h>

#include <map>

#include "launcher/families/model_family.h"
#include "launcher/job/accumulation.h"
#include "launcher/job/build.h"
#include "launcher/render/text_table.h"
#include "launcher/report/placement.h"
#include "launcher/report/plan_details.h"
#include "launcher/report/plan_report.h"
#include "launcher/state/initial_weights.h"
#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

std::string describe_sharding(const ParallelSection& parallel) {
  if (parallel.layout.zero == ZeroStage::kNone) return "every data rank has the whole state";
  const char* const cut[] = {"optimizer state", "gradients and optimizer state",
                             "parameters, gradients and optimizer state"};
  const auto zero = static_cast<std::size_t>(parallel.layout.zero);
  return fmt::format("zero = {}: {} cut over the data ranks", zero, cut[zero - 1]);
}

std::string layout_line(const PlanReport& report) {
  const JobConfig& job = report.config;
  const Mesh& mesh = report.plan.mesh;
  const int stages = mesh.size(Axis::kPipeline), data = mesh.size(Axis::kData),
            tensor = mesh.size(Axis::kTensor);
  std::string text = "layout: " + plural(report.num_ranks, "rank");
  if (stages > 1 || tensor > 1) {
    text += " = ";
    if (stages > 1) text += fmt::format("{} stages x ", stages);
    text += plural(data, "data rank");
    if (tensor > 1) text += fmt::format(" x {} tensor ranks", tensor);
    if (job.parallel.layout.sequence) text += " that share the sequence";
    if (stages > 1) text += fmt::format(", schedule {}", name(job.parallel.layout.schedule));
    if (job.parallel.layout.chunks > 1)
      text += fmt::format(" with {} chunks a stage", job.parallel.layout.chunks);
  } else if (data > 1) {
    text += ", data parallel";
  }
  if (data > 1) text += "; " + describe_sharding(job.parallel);
  text += "; " + to_word(job.precision.mode);
  const std::string recompute = recompute_text(job.parallel.layout);
  if (recompute != "-") text += "; recompute " + recompute;
  if (job.parallel.offload != Offload::kNone)
    text += fmt::format("; offload {}", to_word(job.parallel.offload));
  if (job.parallel.reduction != Reduction::kCanonical)
    text += fmt::format("; reduction {}", to_word(job.parallel.reduction));
  return text;
}

std::string describe_step(const PlanReport& report) {
  const TrainSection& train = report.config.train;
  const BatchLayout batch = batch_layout(report.config, report.num_ranks);
  return fmt::format("step: {}; {} micro-batch{} of {}{}", plural(train.global_batch, "sample"),
                     num_accumulated(batch), batch.per_rank() == 1 ? "" : "es", train.micro_batch,
                     batch.data_ranks > 1 ? " on each data rank" : "");
}

/// "0-4, 9"; for a single chunk also the names of its first and last block.
std::string describe_blocks(const std::vector<const ChunkReport*>& chunks) {
  std::string text;
  for (const ChunkReport* c : chunks) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", c->first_unit);
    if (c->last_unit > c->first_unit) text += fmt::format("-{}", c->last_unit);
  }
  if (chunks.size() > 1) return text;
  const ChunkReport& c = *chunks[0];
  return text + (c.first_unit == c.last_unit ? fmt::format(" {}", c.first_block)
                                             : fmt::format(" {} to {}", c.first_block, c.last_block));
}

std::string describe_stages(const PlanReport& report) {
  if (report.chunks.empty()) return "";
  std::map<int, std::vector<const ChunkReport*>> stages;
  for (const ChunkReport& chunk : report.chunks) stages[chunk.stage].push_back(&chunk);
  TextRows rows{{"stage", "ranks", "blocks", "time", "parameters"}};
  const int data = report.plan.mesh.size(Axis::kData) * report.plan.mesh.size(Axis::kTensor);
  for (const auto& [stage, chunks] : stages) {
    double share = 0;
    std::int64_t parameters = 0;
    for (const ChunkReport* chunk : chunks) {
      share += chunk->time_share;
      parameters += chunk->num_parameters;
    }
    const int first = stage * data;
    rows.push_back({fmt::format("{}", stage),
                    data == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + data - 1),
                    describe_blocks(chunks), fmt::format("{:.1f} %", 100 * share), short_count(parameters)});
  }
  const std::string by = report.measured_on.empty() ? "by counted arithmetic (--times FILE measures)"
                                                    : "measured on " + report.measured_on;
  return "\n" +
         wrapped(fmt::format("stages, parallel.pipeline_cut = \"{}\"; time {}:",
                             to_word(report.config.parallel.pipeline_cut), by)) +
         to_text(rows, {.num_left = 3}) +
         fmt::format(
             "pipeline bubble, simulated: {:.1f} % of a step, uneven stages included, if messages take no "
             "time\n",
             100 * report.bubble_share) +
         (report.cut_note.empty() ? "" : wrapped(report.cut_note));
}

/// One row for each group of ranks with equal needs, named by stage if each stage has one group.
std::string describe_memory(const PlanReport& report) {
  const bool by_stage =
      !report.chunks.empty() &&
      report.groups.size() == static_cast<std::size_t>(report.plan.mesh.size(Axis::kPipeline));
  TextRows rows{{by_stage ? "stage" : "ranks", "total", "parameters", "gradients", "optimizer", "activations",
                 "comm", "other", "sent/step"}};
  for (const RankGroupReport& group : report.groups) {
    const MemoryCounts& bytes = group.prediction.memory.at_peak;
    using enum MemoryCategory;
    const std::int64_t other = bytes[kBatch] + bytes[kHost] + bytes[kData];
    std::string ranks = by_stage ? fmt::format("{}", report.plan.mesh.coord(group.ranks[0])[Axis::kPipeline])
                                 : format_ranks(group.ranks);
    if (ranks.size() > 12) ranks = ranks.substr(0, 9) + "...";
    rows.push_back({ranks, short_bytes(group.prediction.memory.peak_total), short_bytes(bytes[kParameters]),
                    short_bytes(bytes[kGradients]), short_bytes(bytes[kOptimizer]),
                    short_bytes(bytes[kActivations]), short_bytes(bytes[kCommunication]), short_bytes(other),
                    short_bytes(group.prediction.sent_bytes)});
  }
  return "\nmemory of a rank at its peak, exact but for library workspaces:\n" +
         to_text(rows, {.num_kept = 6});
}

/// The predictable part of workspaces on CUDA: for attention, products and convolutions.
std::string describe_workspace(const PlanReport& report) {
  std::int64_t most = 0, with_it = 0;
  for (const RankGroupReport& group : report.groups) {
    most = std::max(most, group.prediction.memory.peak[MemoryCategory::kWorkspace]);
    with_it = std::max(with_it, group.prediction.memory.device_peak);
  }
  if (most == 0) return "";
  return wrapped(fmt::format(
      "workspace of attention and products: {} more at its peak (cuDNN 9.25 and later need less for "
      "attention's backward, engines of convolutions may take more); a rank needs {} with it",
      format_bytes(most), format_bytes(with_it)));
}

std::string describe_partner(const PlanReport& report) {
  const auto memory = partner_memory(report);
  if (!memory) return "";
  return wrapped(
      fmt::format("checkpoint.partner: {} more in {} of each host, if hosts are alike; {} while a copy is "
                  "made, and {} where a "
                  "run goes on from one",
                  short_bytes(memory->kept), report.config.checkpoint.partner_folder,
                  short_bytes(memory->while_copying), short_bytes(memory->while_restoring)));
}

std::string describe_other_accumulations(const PlanReport& report) {
  if (report.other_accumulations.empty()) return "";
  const bool gathers = report.config.parallel.layout.zero == ZeroStage::kParameters;
  std::vector<const LayoutField*> fields;
  for (const std::string& field : fields_by_memory()) {
    if (gathers || field != "keep_gathered") fields.push_back(&layout_field(field));
  }
  TextRows rows(1);
  for (const LayoutField* field : fields) rows[0].emplace_back(field->name);
  rows[0].insert(rows[0].end(), {"total", "sent/step"});
  for (const AccumulationReport& other : report.other_accumulations) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const LayoutField* field : fields) row.push_back(to_text(field->get(other.layout)));
    row.insert(row.end(), {short_bytes(other.peak_bytes), short_bytes(other.sent_bytes)});
  }
  return "\nwith other values of these keys of [parallel] it would be:\n" +
         to_text(rows, {.num_left = rows[0].size() - 2});
}

std::string describe_fit(const JobFit& fit) {
  if (fit.fits()) return wrapped(to_text(fit));
  return wrapped(fmt::format("the job does not fit: a rank needs {}, in {}, and may use {} ({})",
                             format_bytes(fit.peak_bytes), fit.action, format_bytes(fit.limit.bytes),
                             fit.limit.source)) +
         wrapped(describe_remedy(fit));
}

}  // namespace

std::string to_text(const PlanReport& report) {
  const JobConfig& job = report.config;
  std::string text = wrapped(fmt::format("{}: {} parameters in {} blocks; {}", job.model.name,
                                         short_count(report.num_parameters), report.unit_names.size(),
                                         family_of(job.model).describe(job)));
  text += wrapped(layout_line(report)) + wrapped(describe_step(report));
  if (!report.accumulation.empty()) text += wrapped(report.accumulation);
  const Placement placement{report.plan.mesh, report.hosts};
  for (const std::string& line :
       {describe_exchange(placement, job.parallel.layout.exchange, report.exchange), report.tensor_warning}) {
    if (!line.empty()) text += wrapped(line);
  }
  if (report.time) text += to_text(*report.time);
  if (!report.note.empty()) text += wrapped(report.note);
  if (!report.context.empty()) text += wrapped(report.context);
  text += describe_places(placement) + describe_stages(report) + describe_memory(report) +
          describe_workspace(report) + describe_partner(report) + describe_other_accumulations(report);
  text += "\n" + describe_fit(report.fit);
  return text +
         "\nmore: --memory (to the byte), --actions, --rank R (both, of one rank), --json, --timeline FILE\n";
}

}  // namespace trireme
