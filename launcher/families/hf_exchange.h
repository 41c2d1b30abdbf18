// Imports and exports models in the format of Hugging Face transformers.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/tensor_source.h"
#include "runtime/data/class_names.h"

namespace trireme {

/// The model defined by `folder`/config.json. Throws Error naming file and key for an unknown architecture,
/// with the known ones, or a value that the family does not support. `notes`, unless null, receives a line
/// for the log for each ignored value.
ModelSection model_of_hf_folder(const std::filesystem::path& folder,
                                std::vector<std::string>* notes = nullptr);

/// `model`, which must be filled in, in transformers' format. Its classes are named `class_names`, further
/// ones LABEL_i. Throws Error(kUnsupported) for a family without this format.
HfModel hf_model_of(const ModelSection& model, const std::vector<std::string>& class_names = {});

struct InitialWeights {
  std::unique_ptr<TensorSource> source;
  std::vector<std::string> class_names;  // by label, for imported rows; empty: unknown
  std::vector<std::string> notes;        // for the log, in addition to source->notes()
};

/// Opens the weights that model.init_from names: a transformers folder, whose config.json must define the
/// same model, a run, or a safetensors file. A class head is reordered to `data`, see match_classes(). Throws
/// Error(kInvalidInput).
InitialWeights open_initial_weights(const ModelSection& model, const ClassNames& data = {});

/// Class names by label; empty: unknown, or not from a training run.
std::vector<std::string> saved_class_names(const Checkpoint& checkpoint);

/// Metadata key in a safetensors file: the class names, as a JSON list.
inline constexpr const char* kClassNamesMetadata = "trireme.class_names";

/// The keys that would resolve a mismatch between the weights and the model; empty: none.
std::string describe_remedy(const ModelSection& model, const TensorMismatch& mismatch);

}  // namespace trireme
