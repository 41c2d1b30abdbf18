// Models out of and into folders of Hugging Face's transformers.
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

/// The name and shape that `folder`/config.json decides. Throws Error naming the file and the key: an unknown
/// architecture, with those that are known, or what the family does not compute. `notes`, unless null:
/// receives a line for each value that is not followed, for the log.
ModelSection model_of_hf_folder(const std::filesystem::path& folder,
                                std::vector<std::string>* notes = nullptr);

/// A filled in model in their format. Its classes get `class_names`, those beyond them LABEL_i. Throws
/// Error(kUnsupported) for a family that has none.
HfModel hf_model_of(const ModelSection& model, const std::vector<std::string>& class_names = {});

struct InitialWeights {
  std::unique_ptr<TensorSource> source;
  std::vector<std::string> class_names;  // by label, of the rows that come from there; empty: not known
  std::vector<std::string> notes;        // for the log, beside source->notes()
};

/// The weights that model.init_from names: a folder of theirs, whose config.json must make the same model, a
/// run, or a safetensors file. A class head comes in the order of `data`, see match_classes(). Throws
/// Error(kInvalidInput).
InitialWeights open_initial_weights(const ModelSection& model, const ClassNames& data = {});

/// By label; empty: not known, or the checkpoint of no training.
std::vector<std::string> saved_class_names(const Checkpoint& checkpoint);

/// Key of a safetensors file's metadata: the names of its classes, a JSON list.
inline constexpr const char* kClassNamesMetadata = "trireme.class_names";

/// The keys that settle a difference between those weights and the model; empty: there are none.
std::string describe_remedy(const ModelSection& model, const TensorMismatch& mismatch);

}  // namespace trireme
