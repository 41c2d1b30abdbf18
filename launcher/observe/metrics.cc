#include "launcher/observe/metrics.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/base/log.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxLineBytes = 1 << 16;   // longer lines are damaged
constexpr std::size_t kMaxScanBytes = 16 << 20;  // holes of a sparse file have no line ends

/// Calls `visit(line, end of the line in the file)` for each terminated line until it returns false.
template <class Visit>
void visit_lines(const std::filesystem::path& path, const Visit& visit) {
  const MappedFile file(path, "metrics file");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (std::size_t begin = 0;;) {
    const std::size_t length = text.substr(begin, kMaxScanBytes).find('\n');
    if (length == std::string_view::npos || !visit(text.substr(begin, length), begin + length + 1)) return;
    begin += length + 1;
  }
}

enum class LineUse { kKept, kDamaged, kRepeated };

/// The use of a line for a resumed run; its step may be repeated.
LineUse use_of(std::string_view line, const MetricsWriter::Options& options) {
  if (line.size() > kMaxLineBytes) return LineUse::kDamaged;
  nlohmann::json json;
  std::int64_t step = 0;
  try {
    json = parse_json(line);
    step = read_integer<std::int64_t>(json, "step");
  } catch (const std::exception&) {
    return LineUse::kDamaged;
  }
  if (step > options.resume_step) return LineUse::kRepeated;
  const bool is_evaluated_again =
      step == options.resume_step && options.evaluates_again && json.contains("eval_loss");
  return is_evaluated_again ? LineUse::kRepeated : LineUse::kKept;
}

/// Size of the leading lines that a resumed run keeps: up to the last valid one before a repeated step.
/// Damaged lines between valid ones stay.
std::uintmax_t kept_bytes(const MetricsWriter::Options& options) {
  std::size_t bytes = 0;
  std::int64_t number = 0, first_damaged = 0, damaged = 0, damaged_before_kept = 0;
  visit_lines(options.path, [&](std::string_view line, std::size_t end) {
    ++number;
    const LineUse use = use_of(line, options);
    if (use == LineUse::kDamaged && ++damaged == 1) first_damaged = number;
    if (use != LineUse::kKept) return use == LineUse::kDamaged;
    bytes = end;
    damaged_before_kept = damaged;
    return true;
  });
  if (damaged_before_kept > 0)
    log_warning(fmt::format("{}:{}: the line is damaged; {} damaged line(s) are kept", options.path.string(),
                            first_damaged, damaged_before_kept));
  return bytes;
}

}  // namespace

double recorded_step_seconds(const std::filesystem::path& path, std::int64_t first, std::int64_t last) {
  double ms = 0;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return 0;
  visit_lines(path, [&](std::string_view text, std::size_t) {
    if (text.size() > kMaxLineBytes) return true;
    const Json line = parse_small_json<Json>(text);
    if (!line.is_object() || !line.contains("step_ms") || !line["step_ms"].is_number()) return true;
    if (!line.contains("step") || !line["step"].is_number_integer()) return true;
    const auto step = line["step"].get<std::int64_t>();
    if (step >= first && step <= last) ms += line["step_ms"].get<double>();
    return true;
  });
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
  if (!metrics.noise_bands.empty()) line["eval_noise_bands"] = metrics.noise_bands;
  if (metrics.detection) {
    line["eval_ap"] = metrics.detection->ap;
    line["eval_ap50"] = metrics.detection->ap50;
  }
  if (metrics.of_averages) line["eval_weights"] = "ema";
  write_line(line.dump());
}

void MetricsWriter::write_line(const std::string& line) {
  file_.append(line + "\n");
  if (options_.observe) options_.observe(line);
}

}  // namespace trireme
