// A model as Hugging Face's transformers keeps it in a folder: config.json, and tensors under other names,
// cut and transposed otherwise. Data only: tables of the models fill it in, HfSource reads and HfWriter
// writes by it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// A tensor of their file.
struct HfPart {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;  // a matrix [in, out], where ours is [out, in]
};

/// One of our tensors: its parts, stacked along its first dim.
struct HfTensor {
  std::string name;
  std::vector<HfPart> parts;
};

struct HfModel {
  nlohmann::ordered_json config;         // config.json, but for the dtype
  std::string prefix;                    // that a file of the model without its head leaves out: "model."
  std::vector<HfTensor> tensors;         // all of the model's
  std::vector<std::string> passed_over;  // ends of names of tensors that may be there, and say nothing
  // Parts of the files' names, and what the library's modules have in their place: PEFT goes by those.
  std::vector<std::pair<std::string, std::string>> module_names = {};
};

inline constexpr const char* kHfConfigFile = "config.json";

}  // namespace trireme
