#include "launcher/observe/tensorboard_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "launcher/observe/wire_format.h"
#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Field numbers of TensorBoard's protocol buffer messages.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSession = 7;
constexpr int kSessionStatus = 1, kSessionStart = 1;
constexpr int kSummaryValue = 1;

constexpr std::size_t kStepsOfAHistogram = 100;

std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// TFRecord masks its checksums (rotate and add), because a CRC of data that contains its own CRC is weak.
std::uint32_t masked_crc(std::string_view bytes) {
  constexpr std::uint32_t kDelta = 0xa282ead8;
  return std::rotr(crc32c(bytes), 15) + kDelta;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, double now_s, std::int64_t first_step)
    : last_step_(first_step - 1) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // Readers process files in the order of their names, which begin with the time.
  path_ =
      folder / fmt::format("events.out.tfevents.{:010}.{:06}.{}.trireme", static_cast<std::int64_t>(now_s),
                           static_cast<std::int64_t>(now_s * 1e6) % 1000000, getpid());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    const int reason = errno;
    throw Error(code_of_file_failure(reason), "log.tensorboard: cannot write {}: {}", path_.string(),
                std::strerror(reason))
        .about({.file = path_.string(), .system_error = reason});
  }
  std::string version;
  append_double(version, kEventWallTime, now_s);
  append_text(version, kEventFileVersion, "brain.Event:2");
  write_record(version);
  std::string session, start;
  append_integer(session, kSessionStatus, kSessionStart);
  append_double(start, kEventWallTime, now_s);
  append_integer(start, kEventStep, first_step);
  append_text(start, kEventSession, session);
  write_record(start);
}

TensorBoardFile::~TensorBoardFile() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorBoardFile::write_hyperparameters(const std::vector<Hyperparameter>& hyperparameters,
                                            double now_s) {
  const std::string value = session_start_value(hyperparameters, now_s);
  write_values(last_step_, {&value, 1}, now_s);
}

void TensorBoardFile::write_step(const StepMetrics& metrics, const std::string& throughput_unit,
                                 double now_s) {
  std::vector<std::string> values;
  const auto add = [&](std::string_view tag, double number) { values.push_back(scalar_value(tag, number)); };
  add("train/loss", metrics.loss);
  add("train/lr", metrics.lr);
  add("train/grad_norm", metrics.grad_norm);
  add("train/loss_scale", metrics.loss_scale);
  add("train/skipped", metrics.skipped ? 1 : 0);
  add("time/step_ms", metrics.step_ms);
  add("time/data_wait_ms", metrics.data_wait_ms);
  add("time/comm_wait_ms", metrics.comm_wait_ms);
  add("time/" + throughput_unit + "_per_s", metrics.throughput);
  if (metrics.flops_per_s > 0) add("time/flops_per_s", metrics.flops_per_s);
  if (metrics.mfu) add("time/mfu", *metrics.mfu);
  metrics.phases.visit(
      [&](std::string_view phase, double seconds) { add(fmt::format("phase_s/{}", phase), seconds); });
  if (metrics.rank_times.known()) {
    add("ranks/slowest_rank", metrics.rank_times.slowest());
    add("ranks/slowest_excess_ms", metrics.rank_times.excess_ms());
  }
  add("memory/peak_bytes", static_cast<double>(metrics.memory.peak_bytes));
  last_step_ = metrics.step;
  if (metrics.step_ms > 0) step_ms_.push_back(metrics.step_ms);
  if (step_ms_.size() >= kStepsOfAHistogram) values.push_back(take_histogram());
  write_values(metrics.step, values, now_s);
}

void TensorBoardFile::write_eval(std::int64_t step, const EvalMetrics& metrics, double now_s) {
  std::vector<std::string> values = {scalar_value("eval/loss", metrics.loss)};
  if (metrics.top1) values.push_back(scalar_value("eval/top1", *metrics.top1));
  if (metrics.top5) values.push_back(scalar_value("eval/top5", *metrics.top5));
  for (std::size_t band = 0; band < metrics.noise_bands.size(); ++band) {
    values.push_back(scalar_value(fmt::format("eval/noise_band_{}", band), metrics.noise_bands[band]));
  }
  if (metrics.detection) {
    values.push_back(scalar_value("eval/ap", metrics.detection->ap));
    values.push_back(scalar_value("eval/ap50", metrics.detection->ap50));
  }
  write_values(step, values, now_s);
}

void TensorBoardFile::write_end(SessionEnd end, double now_s) {
  std::vector<std::string> values = {session_end_value(end, now_s)};
  if (!step_ms_.empty()) values.push_back(take_histogram());
  write_values(last_step_, values, now_s);
}

std::string TensorBoardFile::take_histogram() {
  std::string value = histogram_value("time/step_ms_histogram", step_ms_);
  step_ms_.clear();
  return value;
}

void TensorBoardFile::write_values(std::int64_t step, std::span<const std::string> values, double now_s) {
  std::string summary, event;
  for (const std::string& value : values) append_text(summary, kSummaryValue, value);
  append_double(event, kEventWallTime, now_s);
  append_integer(event, kEventStep, step);
  append_text(event, kEventSummary, summary);
  write_record(event);
}

void TensorBoardFile::write_record(std::string_view event) {
  if (fd_ < 0) return;
  std::string record;
  append_bytes(record, static_cast<std::uint64_t>(event.size()));
  append_bytes(record, masked_crc(record));
  record += event;
  append_bytes(record, masked_crc(event));
  if (::write(fd_, record.data(), record.size()) == static_cast<ssize_t>(record.size())) return;
  log_warning(fmt::format("log.tensorboard: cannot write {}: {}; the file ends here, training continues",
                          path_.string(), std::strerror(errno)));
  ::close(std::exchange(fd_, -1));
}

}  // namespace trireme
