// A family of models, as the launcher knows it: an entry each, in a file of its own.
//
// To add one: an entry like those in gpt.cc and resnet.cc, and its line in model_family.cc. Keys that no
// other family has are members of ModelSection and rows of config/model_keys.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/config/config.h"
#include "launcher/train/data_module.h"
#include "runtime/block.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_model.h"

namespace trireme {

/// A family in the format of Hugging Face's transformers.
struct HfFormat {
  std::string_view model_type;                                  // of config.json
  ModelSection (*read)(const HfConfig& config);                 // the keys that it decides
  nlohmann::ordered_json (*config)(const ModelSection& model);  // of a filled in one
  HfModel (*write)(const ModelSection& model);                  // likewise
  std::string_view classifier = {};  // the class of transformers whose folders have the layer of classes
};

struct ModelFamily {
  std::string_view plural;                        // "GPTs", in the reference of keys and in messages
  std::span<const std::string_view> names;        // what model.name may be
  std::span<const std::string_view> sizes;        // what model.size may be, beside empty
  std::span<const std::string_view> keys;         // of [model], beside those of every family
  const DataModule& data;                         // what it is trained on
  bool has_class_logits = false;                  // whatever its task
  std::string_view class_head = {};               // begins the names of the tensors that model.new_head draws
  std::string_view class_layer = {};              // likewise, of the one whose rows are the classes
  bool writes_text = false;                       // `trireme sample`
  void (*check)(const ModelSection& model);       // throws Error(kInvalidInput) for keys that make no model
  void (*fill_in)(JobConfig& config);             // what a job leaves to the model's name and to its data
  BlockList (*build)(const ModelSection& model);  // of a filled in one
  std::string (*describe)(const JobConfig& config);   // its shape: "12 layers, 768 wide, ..."
  std::string (*variant)(const ModelSection& model);  // what the times of its blocks depend on beside that
  const HfFormat* hf = nullptr;                       // null: it has none
};

std::span<const ModelFamily* const> model_families();

/// True where an evaluation counts top-1 and top-5.
bool counts_classes(const ModelSection& model);

/// Of model.name. Throws Error(kInvalidInput) for a name that no family has.
const ModelFamily& family_of(const ModelSection& model);

}  // namespace trireme
