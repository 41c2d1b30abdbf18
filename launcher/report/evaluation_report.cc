#include "launcher/report/evaluation_report.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>

#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/report/detection_report.h"

namespace trireme {
namespace {

std::string describe(const TextFigures& figures) {
  std::string text = fmt::format("  perplexity {:.3f}", figures.perplexity);
  if (figures.of_marked_targets) text += " of the marked targets alone";
  if (figures.bits_per_byte) text += fmt::format("  {:.4f} bits per byte", *figures.bits_per_byte);
  return text;
}

}  // namespace

std::optional<TextFigures> text_figures(const JobConfig& config, const EvalMetrics& metrics) {
  if (!family_of(config.model).writes_text) return std::nullopt;
  TextFigures figures{.perplexity = std::exp(metrics.loss),
                      .bits_per_byte = std::nullopt,
                      .of_marked_targets = config.data.kind == DataKind::kChat};
  const auto prepared =
      config.data.kind == DataKind::kTokens ? find_prepared_data(config.data.eval) : std::nullopt;
  if (prepared && prepared->info.source_bytes > 0) {
    const auto tokens = static_cast<double>(prepared->info.train_tokens + prepared->info.eval_tokens);
    figures.bits_per_byte =
        metrics.loss * std::numbers::log2e * tokens / static_cast<double>(prepared->info.source_bytes);
  }
  return figures;
}

std::string describe_eval(const EvalMetrics& metrics) {
  std::string text = fmt::format("loss {:.4f}", metrics.loss);
  if (metrics.top1) text += fmt::format("  top-1 {:.2f} %", 100 * *metrics.top1);
  if (metrics.exact_answers) text += fmt::format("  exact answers {:.2f} %", 100 * *metrics.exact_answers);
  if (metrics.top5) text += fmt::format("  top-5 {:.2f} %", 100 * *metrics.top5);
  if (!metrics.noise_bands.empty()) {
    text += "  by tenth of the noise";
    for (const double band : metrics.noise_bands) {  // NaN: no sample has this noise
      text += std::isnan(band) ? std::string(" -") : fmt::format(" {:.4f}", band);
    }
  }
  if (metrics.detection) {
    for (const auto& [name, value] :
         {std::pair{"AP", metrics.detection->ap}, {"AP50", metrics.detection->ap50}}) {
      text +=
          value < 0 ? fmt::format("  {} -", name) : fmt::format("  {} {:.4f}", name, value);  // no objects
    }
  }
  if (metrics.of_averages) text += " (ema)";
  return text;
}

std::string tables_text(const EvaluationReport& report) {
  std::string text;
  if (report.metrics.detection) text += to_text(*report.metrics.detection, report.class_names);
  if (report.classes) text += to_text(*report.classes);
  return text;
}

std::string summary_line(const EvaluationReport& report) {
  return fmt::format("{}: {}{} over {} samples", report.model, describe_eval(report.metrics),
                     report.text ? describe(*report.text) : "", report.metrics.num_samples);
}

nlohmann::ordered_json to_json(const EvaluationReport& report) {
  const EvalMetrics& metrics = report.metrics;
  nlohmann::ordered_json json = {{"checkpoint", report.model},
                                 {"step", report.step},
                                 {"samples", metrics.num_samples},
                                 {"left_out_samples", report.num_left_out},
                                 {"loss", metrics.loss}};
  if (metrics.of_averages) json["weights"] = "ema";
  if (metrics.top1) json["top1"] = *metrics.top1;
  if (metrics.top5) json["top5"] = *metrics.top5;
  if (!metrics.noise_bands.empty()) json["noise_bands"] = metrics.noise_bands;
  if (metrics.detection) json.update(to_json(*metrics.detection, report.class_names));
  if (report.text) {
    json["perplexity"] = report.text->perplexity;
    if (report.text->of_marked_targets) json["targets"] = "marked";
    if (metrics.exact_answers) json["exact_answers"] = *metrics.exact_answers;
    if (report.text->bits_per_byte) json["bits_per_byte"] = *report.text->bits_per_byte;
  }
  if (report.classes) json.update(to_json(*report.classes));
  return json;
}

}  // namespace trireme
