#include "launcher/train/summary.h"

#include <nlohmann/json.hpp>

#include "launcher/records/output_folder.h"
#include "launcher/render/json_text.h"
#include "launcher/report/layout_json.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const RunLayout& layout) {
  Json json = {
      {"device", layout.device},       {"communicator", layout.communicator},
      {"ranks", layout.num_ranks},     {"data_ranks", layout.num_data_ranks},
      {"threads", layout.num_threads}, {"accumulated_micro_batches", layout.num_accumulated_micro_batches},
      {"reduction", layout.reduction}, {"hosts", layout.num_hosts}};
  json.update(layout_json(layout.layout));
  return json;
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
               {"layout", to_json(summary.layout)}};
  if (summary.eval_ap) json["eval_ap"] = *summary.eval_ap;
  if (summary.eval_ap50) json["eval_ap50"] = *summary.eval_ap50;
  if (summary.eval_of_averages) json["eval_weights"] = "ema";
  if (summary.fp8_clipped) json["fp8_clipped"] = *summary.fp8_clipped;
  return json_text(json, 2) + "\n";
}

void write_summary(const std::filesystem::path& path, const RunSummary& summary) {
  write_text_file(path, to_json(summary));
}

}  // namespace trireme
