// A run as TensorBoard reads it, scalars, histograms and hyperparameters: records of TensorFlow's TFRecord
// format, each an Event message. https://www.tensorflow.org/tutorials/load_data/tfrecord,
// tensorboard/compat/proto/event.proto
//
// Each step's record goes to the system in one piece, so that a process that is killed leaves whole records,
// and at most one that is cut off: readers stop before it. A run that goes on begins a file of its own, whose
// first step tells the reader to forget the steps that are made again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/observe/tensorboard_values.h"
#include "launcher/train/metrics.h"

namespace trireme {

/// CRC-32C (Castagnoli), RFC 3720, B.4.
std::uint32_t crc32c(std::string_view bytes);

class TensorBoardFile {
 public:
  /// Makes `folder`, and a file in it. Throws Error(kInvalidInput) naming log.tensorboard where it cannot.
  TensorBoardFile(const std::filesystem::path& folder, double now_s, std::int64_t first_step);
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;
  ~TensorBoardFile();

  // A record that cannot be written ends the file, with a warning; the run goes on.
  void write_hyperparameters(const std::vector<Hyperparameter>& hyperparameters, double now_s);
  /// Its scalars, and once in a hundred steps a histogram of their times.
  void write_step(const StepMetrics& metrics, const std::string& throughput_unit, double now_s);
  void write_eval(std::int64_t step, const EvalMetrics& metrics, double now_s);
  /// The last record: the histogram of the steps that are left.
  void write_end(SessionEnd end, double now_s);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::string take_histogram();
  /// `values`: written by tensorboard_values.h.
  void write_values(std::int64_t step, std::span<const std::string> values, double now_s);
  void write_record(std::string_view event);

  std::filesystem::path path_;
  int fd_ = -1;  // -1: ended
  std::int64_t last_step_ = 0;
  std::vector<double> step_ms_;  // since the last histogram
};

}  // namespace trireme
