#include "launcher/report/predictions_file.h"

#include "launcher/render/json_text.h"
#include "runtime/base/terminal_text.h"

namespace trireme {

std::string predictions_text(const std::vector<ClassPrediction>& predictions, const ClassReport& report,
                             const JobData& data) {
  const std::int64_t sample_targets = data.eval->targets_per_sample();
  std::string text;
  for (const ClassPrediction& one : predictions) {
    const std::int64_t sample = one.target_index / sample_targets;
    nlohmann::ordered_json line = {{"sample", sample}};
    if (sample_targets > 1) line["document"] = one.target_index % sample_targets;
    if (data.eval_images) line["picture"] = terminal_text(data.eval_images->name(sample));
    line["label"] = report.name(one.target);
    line["predicted"] = report.name(one.predicted);
    line["probability"] = one.probability;
    text += json_text(line) + "\n";
  }
  return text;
}

}  // namespace trireme
