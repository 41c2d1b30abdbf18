#include "launcher/observe/metrics.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// True if a resumed run keeps the line: it is valid, and its step will not be repeated.
bool is_kept(std::string_view line, const MetricsWriter::Options& options) {
  constexpr std::size_t kMaxLineBytes = 1 << 16;
  if (line.size() > kMaxLineBytes) return false;
  nlohmann::json json;
  std::int64_t step = 0;
  try {
    json = parse_json(line);
    step = read_integer<std::int64_t>(json, "step");
  } catch (const std::exception&) {  // damaged
    return false;
  }
  if (step > options.resume_step) return false;
  return step != options.resume_step || !options.evaluates_again || !json.contains("eval_loss");
}

/// Size of the leading lines that a resumed run keeps. Stops before a line that a crash truncated.
std::uintmax_t kept_bytes(const MetricsWriter::Options& options) {
  const MappedFile file(options.path, "metrics file");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::size_t bytes = 0;
  for (std::size_t end; (end = text.find('\n', bytes)) != std::string_view::npos; bytes = end + 1) {
    if (!is_kept(text.substr(bytes, end - bytes), options)) break;
  }
  return bytes;
}

}  // namespace

double recorded_step_seconds(const std::filesystem::path& path, std::int64_t first, std::int64_t last) {
  double ms = 0;
  std::ifstream file(path, std::ios::binary);
  for (std::string text; std::getline(file, text);) {
    const Json line = parse_small_json<Json>(text);
    if (!line.is_object() || !line.contains("step_ms") || !line["step_ms"].is_number()) continue;
    if (!line.contains("step") || !line["step"].is_number_integer()) continue;
    const auto step = line["step"].get<std::int64_t>();
    if (step >= first && step <= last) ms += line["step_ms"].get<double>();
  }
  return ms / 1e3;
}

MetricsWriter::MetricsWriter(Options options) : options_(std::move(options)), file_(options_.path) {
  file_.shorten(options_.resume_step > 0 ? kept_bytes(options_) : 0);
}

void MetricsWriter::write_step(const StepMetrics& metrics) {
  Json memory;
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    memory[std::string(name(category))] = metrics.memory.peak[category];
  }
  Json line = {{"step", metrics.step},
               {"loss", metrics.loss},
               {"lr", metrics.lr},
               {"grad_norm", metrics.grad_norm},
               {"loss_scale", metrics.loss_scale},
               {"skipped", metrics.skipped},
               {"step_ms", metrics.step_ms},
               {options_.throughput_unit + "_per_s", metrics.throughput},
               {"data_wait_ms", metrics.data_wait_ms},
               {"comm_wait_ms", metrics.comm_wait_ms},
               {"comm_bytes", metrics.comm_bytes},
               {"peak_bytes", metrics.memory.peak_bytes},
               {"peak_rank", metrics.memory.rank},
               {"memory", memory}};
  Json phases;
  metrics.phases.visit([&](std::string_view phase, double seconds) { phases[std::string(phase)] = seconds; });
  if (!phases.is_null()) line["phase_s"] = phases;
  if (metrics.flops_per_s > 0) {
    line["flops_per_s"] = metrics.flops_per_s;
    line["mfu"] = metrics.mfu ? Json(*metrics.mfu) : Json(nullptr);
  }
  if (metrics.rank_times.known()) {
    line["slowest_rank"] = metrics.rank_times.slowest();
    line["slowest_excess_ms"] = metrics.rank_times.excess_ms();
  }
  if (metrics.rank_times.is_listed()) line["rank_step_ms"] = metrics.rank_times.busy_ms();
  if (metrics.fp8_clipped) line["fp8_clipped"] = *metrics.fp8_clipped;
  if (!metrics.state_hash.empty()) line["state_hash"] = metrics.state_hash;
  write_line(line.dump());
}

void MetricsWriter::write_eval(std::int64_t step, const EvalMetrics& metrics) {
  Json line = {{"step", step}, {"eval_loss", metrics.loss}};
  if (metrics.top1) line["eval_top1"] = *metrics.top1;
  if (metrics.top5) line["eval_top5"] = *metrics.top5;
  if (metrics.of_averages) line["eval_weights"] = "ema";
  write_line(line.dump());
}

void MetricsWriter::write_line(const std::string& line) {
  file_.append(line + "\n");
}

}  // namespace trireme
