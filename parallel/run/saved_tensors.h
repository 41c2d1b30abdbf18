// The tensors of a checkpoint's files, and where an engine has them: the same list on every rank, in the
// order of the files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/run/engine.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

/// A part of a tensor of a file: where it lies in which flat tensor of the engine.
struct SavedPart {
  static constexpr int kStatistics = -1;

  int group = 0;  // kStatistics: none
  std::int64_t offset = 0;
  Shape shape;
  ParameterSlice slice;
};

/// One tensor of a file, whole whatever chunks it is cut into, so that files know no chunks either.
struct CheckpointTensor {
  // In place of an index of the optimizer's state.
  static constexpr int kMaster = -1, kAverage = -2;

  std::string name;
  Shape shape;
  std::vector<SavedPart> parts;
  int state = kMaster;         // or kAverage, or of the optimizer
  std::int64_t owned_at = -1;  // of a statistic, in what this rank has of them; -1: another stage has it
  int stage = -1;              // of a statistic: the stage that has it

  bool is_statistic() const { return parts[0].group == SavedPart::kStatistics; }
};

/// Of model.safetensors; with kAverage of averages.safetensors.
std::vector<CheckpointTensor> model_tensors(const Engine& engine, int state = CheckpointTensor::kMaster);
std::vector<CheckpointTensor> optimizer_tensors(const Engine& engine);
std::vector<CheckpointTensor> statistics_of(const Engine& engine, StatisticRule rule);

/// A file of a checkpoint.
struct SavedFile {
  std::string_view name;
  std::vector<CheckpointTensor> tensors;
};

/// Those that the engine's state makes, in the order in which they are written.
std::vector<SavedFile> saved_files(const Engine& engine);

/// As the header of a file declares them.
std::vector<SafetensorsEntry> entries_of(const std::vector<CheckpointTensor>& tensors);

/// This rank's shard of a group: of its masters, their averages, or a state of the optimizer.
const Tensor& owned_of(const Engine& engine, int group, int state);

}  // namespace trireme
