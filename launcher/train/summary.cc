#include "launcher/train/summary.h"

#include <nlohmann/json.hpp>

#include "launcher/train/output_folder.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const RunLayout& layout) {
  return {{"device", layout.device},
          {"communicator", layout.communicator},
          {"ranks", layout.num_ranks},
          {"data_ranks", layout.num_data_ranks},
          {"pipeline", layout.num_pipeline_stages},
          {"tensor", layout.num_tensor_ranks},
          {"zero", layout.zero_stage},
          {"accumulate_unsharded", layout.accumulate_unsharded},
          {"keep_gathered", layout.keep_gathered},
          {"recompute_every", layout.recompute_every},
          {"recompute", layout.recompute},
          {"threads", layout.num_threads},
          {"accumulated_micro_batches", layout.num_accumulated_micro_batches},
          {"reduction", layout.reduction},
          {"hosts", layout.num_hosts},
          {"exchange", layout.exchange}};
}

}  // namespace

std::string to_json(const RunSummary& summary) {
  Json memory;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    memory[std::string(name(category))] = summary.memory.peak[category];
  }
  Json json = {{"version", summary.version},
               {"status", summary.status},
               {"steps", summary.num_steps},
               {"first_step", summary.first_step},
               {"skipped_steps", summary.num_skipped},
               {"updates", summary.num_updates},
               {"precision", summary.precision},
               {"parameters", summary.num_parameters},
               {"loss", summary.loss},
               {"eval_loss", summary.eval_loss ? Json(*summary.eval_loss) : Json(nullptr)},
               {"eval_top1", summary.eval_top1 ? Json(*summary.eval_top1) : Json(nullptr)},
               {"eval_top5", summary.eval_top5 ? Json(*summary.eval_top5) : Json(nullptr)},
               {"left_out_samples", summary.num_left_out},
               {"wall_s", summary.wall_s},
               {"step_ms", summary.mean_step_ms},
               {summary.throughput_unit + "_per_s", summary.throughput},
               {"peak_bytes", summary.memory.peak_bytes},
               {"peak_rank", summary.memory.rank},
               {"memory", memory},
               {"state_hash", summary.state_hash},
               {"checkpoint", summary.checkpoint},
               {"layout", layout_json(summary.layout)}};
  if (summary.eval_of_averages) json["eval_weights"] = "ema";
  if (summary.fp8_clipped) json["fp8_clipped"] = *summary.fp8_clipped;
  return json.dump(2) + "\n";
}

void write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  write_text_file(path, to_json(summary));
}

}  // namespace trireme
