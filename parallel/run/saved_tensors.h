// The tensors of a checkpoint's files, and their location in an engine: the same list on every rank, in the
// order of the files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/run/engine.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {

/// A part of a tensor of a file, and its location in a flat tensor of the engine.
struct SavedPart {
  static constexpr int kStatistics = -1;

  int group = 0;  // kStatistics: none
  std::int64_t offset = 0;
  Shape shape;
  ParameterSlice slice;
};

/// One tensor of a file. Files contain whole tensors, even if the parameter is cut into tensor chunks.
struct CheckpointTensor {
  // Values of `state` that are not an index of the optimizer's state.
  static constexpr int kMaster = -1, kAverage = -2, kNf4Scales = -3;

  std::string name;
  Shape shape;
  std::vector<SavedPart> parts;
  int state = kMaster;         // kMaster, kAverage, kNf4Scales, or index of optimizer state
  std::int64_t owned_at = -1;  // for a statistic: offset in StatisticStore::values(); -1: on another stage

  bool is_statistic() const { return parts[0].group == SavedPart::kStatistics; }
};

/// Tensors of model.safetensors; with kAverage, of averages.safetensors.
std::vector<CheckpointTensor> model_tensors(const Engine& engine, int state = CheckpointTensor::kMaster);
std::vector<CheckpointTensor> optimizer_tensors(const Engine& engine);
/// Scales of quantized weights. Their parts are places in QuantizedGroup::scales().
std::vector<CheckpointTensor> nf4_scales(const Engine& engine);
std::vector<CheckpointTensor> statistics_of(const Engine& engine, StatisticRule rule);

/// A file of a checkpoint.
struct SavedFile {
  std::string_view name;
  std::vector<CheckpointTensor> tensors;
};

/// The files of the engine's state, in the order in which they are written.
std::vector<SavedFile> saved_files(const Engine& engine);

/// Entries of a file's header.
std::vector<SafetensorsEntry> entries_of(const std::vector<CheckpointTensor>& tensors);

/// True if a state of a group is read from its codes. owned_of() has no tensor of it.
bool is_in_codes(const ParamStore& params, int group, int state);

/// This rank's shard of a group: masters, averages, scales of codes, or a state of the optimizer.
const Tensor& owned_of(const ParamStore& params, int group, int state);

}  // namespace trireme
