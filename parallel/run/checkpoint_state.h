// The part of a checkpoint that an engine has: parameters and optimizer state by full name, so that it knows
// no layout.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "parallel/run/engine.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {

inline constexpr const char* kModelFile = "model.safetensors";  // "blocks.0.mlp.up.weight", fp32
inline constexpr const char* kOptimizerFile =
    "optimizer.safetensors";  // "exp_avg.blocks.0.mlp.up.weight", fp32

/// With averages of the parameters: a model of its own, which has these in place of the parameters, and
/// frozen parameters and statistics as they are.
inline constexpr const char* kAveragesFile = "averages.safetensors";

/// "blocks.0.mlp.up.weight.fp8_maxima.input", fp32; in mode fp8 alone. See [Note: fp8] in runtime/base/fp8.h.
inline constexpr const char* kFp8MaximaFile = "fp8_maxima.safetensors";

/// Of each of these files.
inline const std::map<std::string, std::string> kFileMetadata = {{"format", "trireme"}};

/// Rank 0 writes these files into `folder` (ignored elsewhere) and returns them; the others hand over what
/// they own, a stretch at a time: saving needs no more memory than a step ([Note: gathering state]).
/// Collective. Throws Error naming the file when the disk refuses.
std::vector<CheckpointFile> save_state(const Engine& engine, const std::filesystem::path& folder);

/// Loads parameters and running statistics from a source of this model's names and shapes, on every rank.
/// Throws Error(kInvalidInput) naming the file and the first tensor that is missing, of another shape or
/// dtype, or not the model's, or of which this rank's part has a number that is not finite or a negative
/// variance; nothing is changed then. Collective where state is sharded.
void load_model(Engine& engine, const TensorSource& source);

/// The tensors that load_model() would leave as they are, as the source says.
std::vector<std::string> new_tensors(const Engine& engine, const TensorSource& source);

/// Throws what load_model() would throw; on this rank alone. All ranks ask this before any of them loads:
/// each sees its own file system and its own part of the numbers.
void check_model(const Engine& engine, const TensorSource& source);

enum class StateParts {
  kAll,       // to go on training
  kModel,     // without optimizer state: to sample or evaluate
  kAverages,  // likewise, the averages in place of the parameters
};

/// Restores what save_state wrote, on every rank; collective where state is sharded. Names and shapes must be
/// those of the engine's model: otherwise Error(kInvalidInput) naming the file, the first parameter that
/// differs and both shapes, and nothing is changed. Histories of fp8 stay empty where the checkpoint was
/// saved in another mode; averages start from the parameters where it has none. The caller restores
/// steps_done.
void load_state(Engine& engine, const std::filesystem::path& folder, StateParts parts);

}  // namespace trireme
