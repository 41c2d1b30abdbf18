// The mapping of a model to a folder of Hugging Face's transformers or diffusers: config.json, and tensors
// with other names, splits and transpositions. Data only: each model family fills in the tables, and HfSource
// and HfWriter read and write by them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/hf_library.h"

namespace trireme {

/// A tensor in a transformers file.
struct HfPart {
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;  // a matrix [in, out] in the file; ours is [out, in]
};

/// One of our tensors: its parts, stacked along its first dim.
struct HfTensor {
  std::string name;
  std::vector<HfPart> parts;
};

/// A tensor in the file that repeats a part of the model. Either may be missing; if both exist, they must be
/// equal.
struct HfCopy {
  std::string name, of;  // "lm_head.weight", "model.embed_tokens.weight"
};

/// A tensor in the file whose values follow from the shape of the model, such as a causal mask.
struct HfDerived {
  std::string end;      // the end of its name: ".attn.bias"
  std::string meaning;  // for the message about a wrong value: "the causal mask"
  /// True if `value` is the expected value of element `index` of a tensor of `shape`. `precision` is the
  /// relative rounding error of the stored type.
  std::function<bool(const std::vector<std::int64_t>& shape, std::uint64_t index, double value,
                     double precision)>
      agrees;
};

struct HfModel {
  nlohmann::ordered_json config;    // config.json without the dtype
  std::string prefix;               // prefix that a file of the model without its head omits: "model."
  std::vector<HfTensor> tensors;    // all tensors of the model
  std::vector<HfCopy> copies;       // copies of parts
  bool can_be_untied = true;        // tie_word_embeddings = false is supported
  std::vector<HfDerived> derived;   // checked against the expected values
  std::vector<std::string> unused;  // name prefixes of tensors of other heads; the log lists them
  // Pairs of name parts: in the files, and in the library's modules, which PEFT uses.
  std::vector<std::pair<std::string, std::string>> module_names = {};
  HfLibrary library = HfLibrary::kTransformers;
};

/// Positions counted from 0, in any number of rows.
HfDerived derived_positions(std::string end);
/// 1 if a query sees a key, 0 above the diagonal.
HfDerived derived_causal_mask(std::string end);
/// The value added to the logit of a masked key: low enough to make its weight 0.
HfDerived derived_masked_logit(std::string end);
/// Fixed fp32 `values`.
HfDerived derived_values(std::string end, std::string meaning, std::vector<float> values);

}  // namespace trireme
