#include "launcher/observe/tensorboard_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little,
              "records are little-endian, and written as they are");

// Fields of tensorboard's protocol messages.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSession = 7;
constexpr int kSessionStatus = 1, kSessionStart = 1;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;

template <class T>
void append_bytes(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

// Wire types of protocol buffers: https://protobuf.dev/programming-guides/encoding/
void append_varint(std::string& to, std::uint64_t value) {
  constexpr std::uint64_t kLow = 0x7f, kMore = 0x80;
  for (; value > kLow; value >>= 7) to += static_cast<char>((value & kLow) | kMore);
  to += static_cast<char>(value);
}

void append_key(std::string& to, int field, int wire_type) {
  append_varint(to, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

void append_integer(std::string& to, int field, std::int64_t value) {
  append_key(to, field, 0);
  append_varint(to, static_cast<std::uint64_t>(value));
}

void append_double(std::string& to, int field, double value) {
  append_key(to, field, 1);
  append_bytes(to, value);
}

void append_text(std::string& to, int field, std::string_view value) {
  append_key(to, field, 2);
  append_varint(to, value.size());
  to += value;
}

void append_float(std::string& to, int field, float value) {
  append_key(to, field, 5);
  append_bytes(to, value);
}

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

// TFRecord stores sums of bytes that may hold sums: rotated and moved, so that none is the sum of itself.
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

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, double now_s, std::int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // Readers take files in the order of their names, which begin with the time.
  path_ =
      folder / fmt::format("events.out.tfevents.{:010}.{:06}.{}.trireme", static_cast<std::int64_t>(now_s),
                           static_cast<std::int64_t>(now_s * 1e6) % 1000000, getpid());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  TRIREME_CHECK(fd_ >= 0, "log.tensorboard: cannot write {}: {}", path_.string(), std::strerror(errno));
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

void TensorBoardFile::write_step(const StepMetrics& metrics, const std::string& throughput_unit,
                                 double now_s) {
  const Scalar scalars[] = {{"train/loss", metrics.loss},
                            {"train/lr", metrics.lr},
                            {"train/grad_norm", metrics.grad_norm},
                            {"train/loss_scale", metrics.loss_scale},
                            {"train/skipped", metrics.skipped ? 1 : 0},
                            {"time/step_ms", metrics.step_ms},
                            {"time/data_wait_ms", metrics.data_wait_ms},
                            {"time/comm_wait_ms", metrics.comm_wait_ms},
                            {"time/" + throughput_unit + "_per_s", metrics.throughput},
                            {"memory/peak_bytes", static_cast<double>(metrics.memory.peak_bytes)}};
  write_scalars(metrics.step, scalars, now_s);
}

void TensorBoardFile::write_eval(std::int64_t step, const EvalMetrics& metrics, double now_s) {
  std::vector<Scalar> scalars = {{"eval/loss", metrics.loss}};
  if (metrics.top1) scalars.emplace_back("eval/top1", *metrics.top1);
  if (metrics.top5) scalars.emplace_back("eval/top5", *metrics.top5);
  write_scalars(step, scalars, now_s);
}

void TensorBoardFile::write_scalars(std::int64_t step, std::span<const Scalar> scalars, double now_s) {
  std::string summary, value, event;
  for (const auto& [tag, number] : scalars) {
    value.clear();
    append_text(value, kValueTag, tag);
    append_float(value, kValueSimple, static_cast<float>(number));
    append_text(summary, kSummaryValue, value);
  }
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
  log_warning(fmt::format("log.tensorboard: cannot write {}: {}; the file ends here, the run goes on",
                          path_.string(), std::strerror(errno)));
  ::close(std::exchange(fd_, -1));
}

}  // namespace trireme
