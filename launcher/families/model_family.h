// The launcher's table of model families: one entry per family, each in its own file.
//
// To add one, write an entry like those in gpt.cc and resnet.cc, and add its line to model_family.cc. Keys
// that no other family has are members of ModelSection and rows of keys/model_keys.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/config/config.h"
#include "launcher/data/data_module.h"
#include "runtime/block.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

class SafetensorsReader;

/// A family in the format of Hugging Face's transformers or diffusers.
struct HfFormat {
  std::span<const std::string_view> model_types;                // in config.json, or class names of diffusers
  ModelSection (*read)(const HfConfig& config);                 // reads the keys that config.json defines
  nlohmann::ordered_json (*config)(const ModelSection& model);  // `model` must be filled in
  HfModel (*write)(const ModelSection& model);                  // likewise
  std::string_view classifier = {};  // transformers class whose checkpoints have the class layer
  HfLibrary library = HfLibrary::kTransformers;
};

struct ModelFamily {
  std::string_view plural;                   // "GPTs", in the reference and in messages
  std::span<const std::string_view> names;   // values of model.name
  std::span<const std::string_view> sizes;   // values of model.size, besides ""
  std::span<const std::string_view> keys;    // keys of [model] in addition to the common ones
  const DataModule& data;                    // training data
  bool has_class_logits = false;             // for every task
  std::string_view class_head = {};          // prefix of the tensors that model.new_head initialises
  std::string_view class_layer = {};         // prefix of the tensors whose rows are the classes
  bool writes_text = false;                  // supports `trireme sample` of texts
  bool makes_pictures = false;               // denoises: supports `trireme sample` of pictures
  bool detects = false;                      // supports `trireme detect`, and evaluations count COCO's AP
  bool is_recurrent = false;                 // a state replaces the context: a text has no maximum length
  std::string_view tensor_obstacle = {};     // the reason why tensor ranks cannot share the layers
  void (*check)(const ModelSection& model);  // throws Error(kInvalidInput) for invalid keys
  void (*fill_in)(JobConfig& config);        // fills in values that follow from the model's name and the data
  BlockList (*build)(const ModelSection& model);      // `model` must be filled in
  std::string (*describe)(const JobConfig& config);   // its shape: "12 layers, 768 wide, ..."
  std::string (*variant)(const ModelSection& model);  // further settings that block times depend on
  const HfFormat* hf = nullptr;                       // null: not supported
  /// Throws Error(kInvalidInput) for weights of another program whose model differs in a setting that names
  /// the difference better than a tensor's shape; null: no such setting.
  void (*check_weights)(const ModelSection& model, const SafetensorsReader& file) = nullptr;
};

std::span<const ModelFamily* const> model_families();

/// True if evaluations count top-1 and top-5.
bool counts_classes(const ModelSection& model);

/// The family of model.name. Throws Error(kInvalidInput) for an unknown name.
const ModelFamily& family_of(const ModelSection& model);

}  // namespace trireme
