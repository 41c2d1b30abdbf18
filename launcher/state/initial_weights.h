// The weights that a run starts from: a transformers folder, a safetensors file, or another run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/hf_extras.h"
#include "runtime/checkpoint/tensor_source.h"
#include "runtime/data/class_names.h"

namespace trireme {

struct InitialWeights {
  std::unique_ptr<TensorSource> source;
  std::vector<std::string> class_names;  // by label, for imported rows; empty: unknown
  std::vector<std::string> notes;        // for the log, in addition to source->notes()
  HfExtras hf_extras;                    // of a transformers folder, or of the run
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
