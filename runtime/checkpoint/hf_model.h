// A model as Hugging Face's transformers keeps it in a folder: config.json, and tensors under other names,
// cut and transposed otherwise. Data only: tables of the models fill it in, HfSource reads and HfWriter
// writes by it.
#pragma once

#include <cstdint>
#include <functional>
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

/// A tensor of their file that repeats a part of the model. Either may be missing; where both are there, they
/// must be equal.
struct HfCopy {
  std::string name, of;  // "lm_head.weight", "model.embed_tokens.weight"
};

/// A tensor of their file that follows from the shape of the model, such as a causal mask.
struct HfDerived {
  std::string end;      // of its name: ".attn.bias"
  std::string meaning;  // for the message about another value: "the causal mask"
  /// True where element `index` of a tensor of `shape` has the value that is computed here. `precision` is
  /// the relative rounding error of the stored type.
  std::function<bool(const std::vector<std::int64_t>& shape, std::uint64_t index, double value,
                     double precision)>
      agrees;
};

struct HfModel {
  nlohmann::ordered_json config;    // config.json, but for the dtype
  std::string prefix;               // that a file of the model without its head leaves out: "model."
  std::vector<HfTensor> tensors;    // all of the model's
  std::vector<HfCopy> copies;       // of parts
  bool can_be_untied = true;        // tie_word_embeddings = false is followed
  std::vector<HfDerived> derived;   // compared with what is computed
  std::vector<std::string> unused;  // beginnings of names of tensors of other heads, which the log names
  // Parts of the files' names, and what the library's modules have in their place: PEFT goes by those.
  std::vector<std::pair<std::string, std::string>> module_names = {};
};

inline constexpr const char* kHfConfigFile = "config.json";

/// Positions counted from 0, in any number of rows.
HfDerived derived_positions(std::string end);
/// 1 where a query sees a key, 0 above the diagonal.
HfDerived derived_causal_mask(std::string end);
/// What is added to the logits of a key that is not seen: so low that its weight is 0.
HfDerived derived_masked_logit(std::string end);
/// `values` of fp32.
HfDerived derived_values(std::string end, std::string meaning, std::vector<float> values);

}  // namespace trireme
