// The engine's part of a checkpoint: parameters and optimizer state by full name, independent of the layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/run/engine.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

inline constexpr const char* kModelFile = "model.safetensors";  // "blocks.0.mlp.up.weight", fp32
inline constexpr const char* kOptimizerFile =
    "optimizer.safetensors";  // "exp_avg.blocks.0.mlp.up.weight", fp32

/// Written if the engine keeps averages: a complete model with averages in place of the parameters, and with
/// frozen parameters and statistics as they are.
inline constexpr const char* kAveragesFile = "averages.safetensors";

/// "blocks.0.mlp.up.weight.fp8_maxima.input", fp32; mode fp8 only. See [Note: fp8] in runtime/base/fp8.h.
inline constexpr const char* kFp8MaximaFile = "fp8_maxima.safetensors";

/// "blocks.0.mlp.up.weight.nf4_scales", fp32; with quantized weights only, whose numbers are in the model's
/// file. With these scales the numbers give the same codes again: see [Note: nf4] in runtime/base/nf4.h.
inline constexpr const char* kNf4ScalesFile = "nf4_scales.safetensors";

/// Metadata of each of these files.
inline const std::map<std::string, std::string> kFileMetadata = {{"format", "trireme"}};

/// Writes these files into rank 0's `folder` (ignored elsewhere), which all ranks must see: every rank writes
/// its pieces of the state. Existing files are replaced; CheckpointStore makes a save atomic. Returns the
/// files on rank 0. Collective. Throws Error on every rank, naming the file, if a rank cannot write.
std::vector<CheckpointFile> save_state(const Engine& engine, const std::filesystem::path& folder);

/// Elements [first, first + values.size()) of the flat fp32 tensor `name`.
using PieceVisitor =
    std::function<void(const std::string& name, std::uint64_t first, std::span<const float> values)>;

/// Calls `visit` with this rank's pieces of the parameters and running statistics, copied to host memory. The
/// pieces of all ranks cover the model; ranks that hold the same values visit them, too. Not while a step
/// runs.
void visit_model(const Engine& engine, const PieceVisitor& visit);

/// Loads parameters and running statistics on every rank, from a source with this model's names and shapes.
/// Throws Error(kInvalidInput) naming the file and the first wrong tensor, before anything is changed. A
/// tensor is wrong if it is missing, is not the model's, has another shape or dtype, or has a non-finite
/// number or a negative variance in this rank's part. Collective if state is sharded.
void load_model(Engine& engine, const TensorSource& source);

/// Names of the tensors that load_model() would leave unchanged, according to the source.
std::vector<std::string> new_tensors(const Engine& engine, const TensorSource& source);

/// Throws what load_model() would throw. Runs on this rank only: each rank sees its own file system and its
/// own part of the numbers, so all ranks must pass before any of them loads.
void check_model(const Engine& engine, const TensorSource& source);

enum class StateParts {
  kAll,       // to continue training
  kModel,     // without optimizer state: to sample or evaluate
  kAverages,  // likewise, with averages in place of the parameters
};

/// Restores what save_state wrote, on every rank; collective if state is sharded. Throws Error(kInvalidInput)
/// naming the file, the first parameter that differs and both shapes, if names or shapes are not the model's;
/// a mismatch in the model or optimizer file is found before anything is changed. fp8 histories stay empty if
/// the checkpoint was saved in another mode. Averages start from the parameters if the checkpoint has none.
/// The caller restores steps_done.
void load_state(Engine& engine, const std::filesystem::path& folder, StateParts parts);

}  // namespace trireme
