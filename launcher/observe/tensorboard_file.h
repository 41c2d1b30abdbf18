// A run's TensorBoard event file with scalars, histograms and hyperparameters: records in TensorFlow's
// TFRecord format, each an Event message. https://www.tensorflow.org/tutorials/load_data/tfrecord,
// tensorboard/compat/proto/event.proto
//
// Each step's record is written with one call, so a killed process leaves whole records and at most one
// truncated one, where readers stop. A resumed run begins a new file. Its first step makes the reader drop
// the steps that are repeated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/observe/metrics.h"
#include "launcher/observe/tensorboard_values.h"

namespace trireme {

/// CRC-32C (Castagnoli), RFC 3720, B.4.
std::uint32_t crc32c(std::string_view bytes);

class TensorBoardFile {
 public:
  /// Creates `folder` and a file in it. Throws Error(kInvalidInput) naming log.tensorboard on failure.
  TensorBoardFile(const std::filesystem::path& folder, double now_s, std::int64_t first_step);
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;
  ~TensorBoardFile();

  // If a record cannot be written, the file ends with a warning, and the run continues.
  void write_hyperparameters(const std::vector<Hyperparameter>& hyperparameters, double now_s);
  /// Writes the step's scalars, and every hundred steps a histogram of step times.
  void write_step(const StepMetrics& metrics, const std::string& throughput_unit, double now_s);
  void write_eval(std::int64_t step, const EvalMetrics& metrics, double now_s);
  /// Writes the last record: the histogram of the remaining steps.
  void write_end(SessionEnd end, double now_s);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::string take_histogram();
  /// `values`: serialized by tensorboard_values.h.
  void write_values(std::int64_t step, std::span<const std::string> values, double now_s);
  void write_record(std::string_view event);

  std::filesystem::path path_;
  int fd_ = -1;  // -1: ended
  std::int64_t last_step_ = 0;
  std::vector<double> step_ms_;  // since the last histogram
};

}  // namespace trireme
