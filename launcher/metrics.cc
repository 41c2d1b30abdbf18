#include "launcher/metrics.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes of the leading lines that a resumed run keeps. Ends before a line that a crash cut short.
std::uintmax_t kept_bytes(const MetricsWriter::Options& options) {
  std::ifstream file(options.path, std::ios::binary);
  std::uintmax_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) break;
    const std::int64_t step = json["step"].get<std::int64_t>();
    if (step > options.resume_step) break;
    if (step == options.resume_step && options.evaluates_again && json.contains("eval_loss")) break;
    bytes += line.size() + 1;
  }
  return bytes;
}

}  // namespace

MetricsWriter::MetricsWriter(Options options) : options_(std::move(options)) {
  const auto& path = options_.path;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    const std::uintmax_t bytes = options_.resume_step > 0 ? kept_bytes(options_) : 0;
    std::filesystem::resize_file(path, bytes, error);
    TRIREME_CHECK(!error, "cannot shorten {} to the {} bytes up to step {}: {}", path.string(), bytes,
                  options_.resume_step, error.message());
  }
  file_.open(path, std::ios::binary | std::ios::app);
  TRIREME_CHECK(file_.good(), "cannot write {}: {}", path.string(), std::generic_category().message(errno));
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
               {options_.throughput_key, metrics.throughput},
               {"data_wait_ms", metrics.data_wait_ms},
               {"comm_wait_ms", metrics.comm_wait_ms},
               {"comm_bytes", metrics.comm_bytes},
               {"peak_bytes", metrics.memory.peak_bytes},
               {"peak_rank", metrics.memory.rank},
               {"memory", memory}};
  if (!metrics.state_hash.empty()) line["state_hash"] = metrics.state_hash;
  write_line(line.dump());
}

void MetricsWriter::write_eval(std::int64_t step, const EvalMetrics& metrics) {
  Json line = {{"step", step}, {"eval_loss", metrics.loss}};
  if (metrics.top1) line["eval_top1"] = *metrics.top1;
  if (metrics.top5) line["eval_top5"] = *metrics.top5;
  write_line(line.dump());
}

void MetricsWriter::write_line(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_.good()) {
    throw Error(ErrorCode::kRuntime, fmt::format("cannot write {}: {}", options_.path.string(),
                                                 std::generic_category().message(errno)));
  }
}

}  // namespace trireme
